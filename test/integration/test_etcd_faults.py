# SPDX-License-Identifier: Apache-2.0
"""Faults between us and a real etcd: each gives its code within its deadline, without a leak."""

import datetime
import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import etcd_programs
import side_by_side
from conftest import BINARY
from fault import proxy
from rig import etcd, pki, wait
from rig.process import Processes

FAST = ("--unsafe-no-fsync",)


def attempt(verb, *words, key="key", timeout_ms=2000):
    out = etcd_programs.run("etcd_try", verb, key, "--timeout-ms", timeout_ms, *words)
    result = json.loads(out.splitlines()[-1])
    assert result["ms"] <= timeout_ms + 300, result
    return result


def exists(cluster, key):
    return json.loads(cluster.etcdctl("get", key, "-w", "json")).get("count", 0) > 0


@pytest.fixture(scope="module")
def ahead(request, tmp_path_factory):
    yield from side_by_side.run(request, tmp_path_factory, 3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with etcd.running(tmp_path_factory.mktemp("etcd"), flags=FAST) as running:
        yield running


@pytest.fixture
def between(cluster):
    """A proxy in front of the one member."""
    with proxy.before(cluster.endpoints[0]) as running:
        yield running


def test_an_answer_that_is_lost_is_an_unknown_outcome(cluster, between):
    between.deaf_answers = True
    result = attempt("put", "--endpoints", between.url, key="lost-answer", timeout_ms=700)
    assert result["code"] == "OUTCOME_UNKNOWN"
    assert exists(cluster, "lost-answer"), "this one was done; the client could not know"
    assert attempt("get", "--endpoints", between.url, timeout_ms=700)["code"] == "TIMEOUT"


def test_a_request_that_is_lost_is_an_unknown_outcome_too(cluster, between):
    between.silent = True
    result = attempt("put", "--endpoints", between.url, key="lost-request", timeout_ms=700)
    assert result["code"] == "OUTCOME_UNKNOWN"
    assert not exists(cluster, "lost-request"), "this one was not; the client could not know"


def test_a_reset_in_mid_call(cluster, between):
    between.deaf_answers = True
    for verb, code in ("put", "OUTCOME_UNKNOWN"), ("get", "UNAVAILABLE"):
        timer = threading.Timer(0.4, between.reset)
        timer.start()
        result = attempt(verb, "--endpoints", between.url)
        timer.join()
        assert result["code"] == code and result["ms"] < 1500


def second_call(between, breaking, timeout_ms=1500):
    """One call that works, then something breaks, then a put on the idle connection."""
    process = etcd_programs.start(
        "etcd_try", "second-call", "second", "--endpoints", between.url,
        "--timeout-ms", timeout_ms, stdin=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == "first\n"
    breaking()
    time.sleep(0.3)
    out, err = process.communicate("go\n", timeout=20)
    assert process.returncode == 0, err
    return json.loads(out)


def test_an_idle_connection_that_was_closed_is_not_trusted_with_a_write(cluster, between):
    """The reset is noticed before the request is sent, so the put is done on a new connection."""
    assert second_call(between, between.reset)["code"] == "OK"


def test_an_idle_connection_and_a_server_that_is_gone(cluster, between):
    assert second_call(between, between.close)["code"] == "UNAVAILABLE"


def test_an_idle_connection_that_went_half_open(cluster, between):
    def half_open():
        between.silent = True

    result = second_call(between, half_open)
    assert result["code"] == "OUTCOME_UNKNOWN" and 1400 < result["ms"] < 1900


def freeze(process):
    """Stops every thread of it, and sees that they have stopped."""
    process.signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{process.pid}/task")
    wait.until(
        lambda: all(") T " in task.joinpath("stat").read_text() for task in tasks.iterdir()),
        5, "all threads have stopped",
    )  # fmt: skip


@pytest.mark.parametrize("tls", [False, True])
def test_a_member_killed_in_mid_call(tmp_path, tls):
    with etcd.running(tmp_path, flags=FAST, tls=tls) as cluster:
        member = cluster.members[0]
        words = etcd_programs.client_options(cluster)
        for code in "OUTCOME_UNKNOWN", "UNAVAILABLE":
            verb = "second-call" if code == "OUTCOME_UNKNOWN" else "second-get"
            process = etcd_programs.start(
                "etcd_try", verb, "--timeout-ms", 2000, *words, stdin=subprocess.PIPE
            )
            assert process.stdout.readline() == "first\n"
            freeze(cluster.process(member))
            timer = threading.Timer(0.5, cluster.process(member).signal, [signal.SIGKILL])
            timer.start()
            out, err = process.communicate("go\n", timeout=20)
            assert process.returncode == 0, err
            result = json.loads(out)
            assert result["code"] == code and result["ms"] < 1500, result
            assert result["reason"] == "", "a cut connection is no fault of TLS"
            timer.join()
            cluster.start(member)


def fill(cluster, megabytes, *words):
    """Real data through our own client, so that a snapshot takes a while."""
    value = "x" * 1_000_000
    for number in range(megabytes):
        subprocess.run(
            [BINARY, "etcd", "put", f"fill/{number}", "--endpoints", cluster.endpoints[0], *words],
            input=value, text=True, check=True, capture_output=True, timeout=30,
        )  # fmt: skip


def test_a_snapshot_that_breaks_is_never_complete(tmp_path):
    with (
        etcd.running(tmp_path, flags=FAST) as cluster,
        proxy.before(cluster.endpoints[0]) as between,
    ):
        fill(cluster, 20)
        assert attempt("snapshot", "--endpoints", between.url, timeout_ms=20000)["code"] == "OK"
        whole = between.forwarded
        assert whole > 20_000_000
        for part in 100, whole // 10, whole // 2, whole - 100:
            between.forwarded, between.cut_after = 0, part
            result = attempt("snapshot", "--endpoints", between.url, timeout_ms=20000)
            assert result["code"] == "UNAVAILABLE", part
        between.cut_after = None
        between.forwarded = 0

        def silence():
            wait.until(
                lambda: between.forwarded > whole // 3, 10, "a third has passed", every=0.001
            )
            between.silent = True

        thread = threading.Thread(target=silence)
        thread.start()
        assert attempt("snapshot", "--endpoints", between.url)["code"] == "TIMEOUT"
        thread.join()
        member = cluster.members[0]
        between.silent, between.forwarded = False, 0

        def kill():
            wait.until(
                lambda: between.forwarded > whole // 3, 10, "a third has passed", every=0.001
            )
            cluster.process(member).signal(signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        assert attempt("snapshot", "--endpoints", between.url, timeout_ms=9000)["code"] != "OK"
        thread.join()


def test_a_slow_reader_holds_one_window_and_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(
        etcd_programs.SANITIZERS,
        "ASAN_OPTIONS",
        "quarantine_size_mb=1:thread_local_quarantine_size_kb=64",
    )
    with etcd.running(tmp_path, flags=FAST) as cluster:
        fill(cluster, 60)
        out = etcd_programs.run(
            "etcd_try", "slow-watch", "--endpoints", cluster.endpoints[0],
            "--timeout-ms", 60000, "--count", 60,
        )  # fmt: skip
        seen = json.loads(out)
        assert seen["events"] == 60 and seen["bytes"] == 60_000_000
        assert seen["rss"] < 24 << 20, "one window of 4 MiB, one message of 2 MiB, and sanitizers"


# --- TLS


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with etcd.running(tmp_path_factory.mktemp("secure"), tls=True, flags=FAST) as running:
        yield running


def tls_words(secure, **other):
    words = {"cacert": secure.authority.cert, "cert": secure.client.cert, "key": secure.client.key}
    words |= other
    pairs = [[f"--{name.replace('_', '-')}", value] for name, value in words.items() if value]
    return ["--endpoints", secure.endpoints[0], *(word for pair in pairs for word in pair)]


def test_certificates_that_are_good(secure):
    assert attempt("put", *tls_words(secure))["code"] == "OK"
    assert attempt("put", *tls_words(secure, server_name="localhost"))["code"] == "OK"


@pytest.mark.parametrize("verb", ["get", "put", "watch", "snapshot"])
def test_a_wrong_server_name_is_denied(secure, verb):
    result = attempt(verb, *tls_words(secure, server_name="other.example"))
    assert result["code"] == "DENIED" and result["reason"] == "TLS"
    assert "hostname mismatch" in result["text"]


def test_a_wrong_authority_is_denied(secure, tmp_path):
    other = pki.Authority(tmp_path, "other")
    result = attempt("put", *tls_words(secure, cacert=other.cert))
    assert result["code"] == "DENIED" and "certificate" in result["text"]


def test_no_client_certificate_or_a_foreign_one_is_denied(secure, tmp_path):
    result = attempt("put", *tls_words(secure, cert=None, key=None))
    assert result["code"] == "DENIED" and result["reason"] == "TLS", result
    other = pki.Authority(tmp_path, "other").issue("client", "root")
    result = attempt("put", *tls_words(secure, cert=other.cert, key=other.key))
    assert result["code"] == "DENIED" and result["reason"] == "TLS", result


def test_plaintext_to_a_tls_port_and_the_reverse(secure, cluster):
    plain = secure.endpoints[0].replace("https", "http")
    assert attempt("get", "--endpoints", plain)["code"] == "UNAVAILABLE"
    words = tls_words(secure)
    words[1] = cluster.endpoints[0].replace("http", "https")
    result = attempt("get", *words)
    assert result["code"] == "UNAVAILABLE" and result["reason"] == "TLS"


def test_an_expired_certificate_is_denied(tmp_path, monkeypatch):
    def expiring(lifetime):
        monkeypatch.setattr(pki, "LIFETIME", lifetime)

    class Expired(etcd.Cluster):
        def healthy(self, member):
            return "serving client traffic" in self.process(member).log.read_text()

    processes = Processes(tmp_path, die_with_parent=True)
    try:
        old = Expired(processes, tls=True, flags=FAST)
        expiring(datetime.timedelta(minutes=-1))
        old.authority.issue("server", "etcd", hosts=["localhost", "127.0.0.1"])
        expiring(datetime.timedelta(days=1))
        old.start()
        result = attempt("put", *tls_words(old))
        assert result["code"] == "DENIED" and "expired" in result["text"]
        probed = etcd_programs.run("etcd_try", "probe", "--timeout-ms", 2000, *tls_words(old))
        assert json.loads(probed)["outcomes"] == ["tls error"]
    finally:
        processes.stop_all()


def test_an_expired_client_certificate_is_denied(secure, monkeypatch):
    monkeypatch.setattr(pki, "LIFETIME", datetime.timedelta(minutes=-1))
    old = secure.authority.issue("old", "root")
    words = tls_words(secure, cert=old.cert, key=old.key)
    for verb in "get", "put":
        result = attempt(verb, *words)
        assert result["code"] == "DENIED" and result["reason"] == "TLS", result
    probed = etcd_programs.run("etcd_try", "probe", "--timeout-ms", 2000, *words)
    assert json.loads(probed)["outcomes"] == ["tls error"]


def test_a_member_killed_in_mid_stream_under_tls(tmp_path):
    with (
        etcd.running(tmp_path, tls=True, flags=FAST) as cluster,
        proxy.before(cluster.endpoints[0]) as between,
    ):
        words = tls_words(cluster)
        fill(cluster, 20, *words[2:])
        words[1] = between.url.replace("http:", "https:")

        def kill():
            wait.until(lambda: between.forwarded > 5_000_000, 10, "a quarter passed", every=0.001)
            cluster.process(cluster.members[0]).signal(signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        result = attempt("snapshot", *words, timeout_ms=9000)
        thread.join()
        assert result["code"] == "UNAVAILABLE" and result["reason"] == "", result


# --- Identity and credentials


def test_an_address_that_another_cluster_took_over(tmp_path):
    with (
        etcd.running(tmp_path / "a", flags=FAST) as ours,
        etcd.running(tmp_path / "b", flags=(*FAST, "--initial-cluster-token=b")) as theirs,
        proxy.before(ours.endpoints[0]) as address,
    ):
        header = json.loads(ours.etcdctl("member", "list", "-w", "json"))["header"]
        words = ["--endpoints", address.url, "--cluster-id", f"{header['cluster_id']:x}"]
        for verb in "put", "get", "members", "snapshot", "defrag":
            assert attempt(verb, *words)["code"] == "OK"
        host, port = theirs.endpoints[0].split("//")[1].split(":")
        address.upstream = (host, int(port))
        address.reset()
        for verb in (
            "put",
            "get",
            "delete",
            "members",
            "status",
            "snapshot",
            "defrag",
            "watch",
            "lease",
        ):
            result = attempt(verb, *words, key="foreign")
            assert result["code"] == "CONFLICT", (verb, result)
        assert not exists(theirs, "foreign"), "nothing was written into the other cluster"
        probed = json.loads(etcd_programs.run("etcd_try", "probe", "--timeout-ms", 2000, *words))
        assert probed["outcomes"] == ["foreign"]


@pytest.mark.parametrize("version", ["3.5", "3.6", "3.7"])
@side_by_side.scenario
def test_a_token_that_expires_under_a_stream_is_renewed(directory, version):
    secret = directory / "password"
    secret.write_text("mallory-password")
    flags = (*FAST, "--bcrypt-cost=4", "--auth-token-ttl=1")
    with etcd.running(directory, version=version, flags=flags) as cluster:
        words = ["--endpoints", cluster.endpoints[0]]
        etcd_programs.run("etcd_suite", "setup-auth", *words)
        words += ["--user", "mallory", "--password-file", secret]
        etcd_programs.run(
            "etcd_try", "token-expiry", *words, "--count", 2500, "--timeout-ms", 20000
        )


def test_wrong_credentials(tmp_path):
    secret = tmp_path / "password"
    secret.write_text("wrong")
    with etcd.running(tmp_path, flags=(*FAST, "--bcrypt-cost=4")) as cluster:
        words = ["--endpoints", cluster.endpoints[0]]
        etcd_programs.run("etcd_suite", "setup-auth", *words)
        assert attempt("put", *words)["code"] == "DENIED"
        assert attempt("watch", *words)["code"] == "DENIED"
        words += ["--user", "mallory", "--password-file", secret]
        for verb in "put", "get", "watch", "snapshot":
            assert attempt(verb, *words)["code"] == "DENIED", verb
        probed = json.loads(etcd_programs.run("etcd_try", "probe", "--timeout-ms", 2000, *words))
        assert probed["outcomes"] == ["auth error"]


def enable_auth(cluster, password):
    for words in (
        ("user", "add", f"root:{password}"),
        ("role", "add", "root"),
        ("user", "grant-role", "root", "root"),
        ("auth", "enable"),
    ):
        try:
            cluster.etcdctl(*words)
        except subprocess.CalledProcessError as e:
            assert "already exists" in e.stderr, e.stderr


def root_login(directory, password):
    path = directory / f"{password}.password"
    path.write_text(password)
    return ["--user", "root", "--password-file", path]


def cluster_id(cluster):
    return (
        f"{json.loads(cluster.etcdctl('member', 'list', '-w', 'json'))['header']['cluster_id']:x}"
    )


@pytest.mark.parametrize("version", ["3.5", "3.6", "3.7"])
@side_by_side.scenario
def test_another_cluster_is_foreign_also_when_both_have_users(directory, version):
    users = (*FAST, "--bcrypt-cost=4")
    other_token = (*users, "--initial-cluster-token=b")
    with (
        etcd.running(directory / "a", version=version, flags=users) as ours,
        etcd.running(directory / "b", version=version, flags=other_token) as theirs,
    ):
        expected = ["--cluster-id", cluster_id(ours), *root_login(directory, "ours")]
        enable_auth(ours, "ours")
        enable_auth(theirs, "theirs")
        foreign = ["--endpoints", theirs.endpoints[0], *expected]
        for verb in "put", "get", "delete", "members", "status", "snapshot", "watch", "lease":
            result = attempt(verb, *foreign)
            assert result["code"] == "CONFLICT", (verb, result)
        both = f"{theirs.endpoints[0]},{ours.endpoints[0]}"
        for verb in "put", "get":
            assert attempt(verb, "--endpoints", both, *expected)["code"] == "OK"
        for urls, outcomes in (
            (both, ["foreign", "answered"]),
            (f"{ours.endpoints[0]},{theirs.endpoints[0]}", ["answered", "foreign"]),
            (theirs.endpoints[0], ["foreign"]),
        ):
            out = etcd_programs.run(
                "etcd_try", "probe", "--endpoints", urls, "--timeout-ms", 2000, *expected
            )
            assert json.loads(out)["outcomes"] == outcomes, out


def test_a_stopped_member_does_not_keep_the_others_from_logging_in(tmp_path):
    with etcd.running(tmp_path, size=3, flags=(*FAST, "--bcrypt-cost=4")) as cluster:
        answers = json.loads(cluster.etcdctl("endpoint", "status", "-w", "json"))
        stopped = next(
            m for m, a in zip(cluster.members, answers, strict=True)
            if a["Status"]["leader"] != a["Status"]["header"]["member_id"]
        )  # fmt: skip
        enable_auth(cluster, "secret")
        freeze(cluster.process(stopped))
        others = [m.client_url for m in cluster.members if m is not stopped]
        words = ["--endpoints", ",".join([stopped.client_url, *others])]
        words += ["--timeout-ms", 2000, *root_login(tmp_path, "secret")]
        seen = json.loads(etcd_programs.run("etcd_try", "probe", *words))
        assert seen["outcomes"] == ["timed out", "answered", "answered"], seen
        assert seen["reads"] == [False, True, True]


# --- Endpoints


def test_reads_and_writes_move_on_from_what_does_not_answer(cluster):
    with proxy.black_hole() as hole, proxy.silence() as mute:
        words = ["--endpoints", f"{hole},{mute},http://127.0.0.1:1,{cluster.endpoints[0]}"]
        for verb in "get", "members", "put":
            result = attempt(verb, *words, key="moved-on", timeout_ms=4000)
            # A put that was perhaps taken by the mute address must not be sent again.
            assert result["code"] == ("OUTCOME_UNKNOWN" if verb == "put" else "OK"), result
    words = ["--endpoints", f"http://127.0.0.1:1,{cluster.endpoints[0]}"]
    assert attempt("put", *words, key="moved-on")["code"] == "OK"


def test_a_probe_says_of_each_member_what_is_wrong(cluster, secure):
    with proxy.black_hole() as hole, proxy.silence() as mute:
        urls = [cluster.endpoints[0], "http://127.0.0.1:1", hole, mute, secure.endpoints[0]]
        began = time.monotonic()
        out = etcd_programs.run(
            "etcd_try", "probe", "--endpoints", ",".join(urls), "--timeout-ms", 900
        )
        assert time.monotonic() - began < 4
    shown = json.loads(out)
    assert shown["outcomes"] == ["answered", "refused", "timed out", "timed out", "failed"]
    assert shown["ms"] < 1000
