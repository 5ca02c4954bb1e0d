# SPDX-License-Identifier: Apache-2.0
"""One suite over every supported etcd, every kind of security, one and three members."""

import base64
import dataclasses
import json
import re
import subprocess

import pytest

import etcd_programs
import side_by_side
from conftest import BINARY
from fault import h2, proxy
from rig import etcd, tools, wait
from rig.process import Processes

VERSIONS = ["3.5", "3.6", "3.7"]
SERVER_TLS_ONLY = ("--client-cert-auth=false", "--trusted-ca-file=")
FAST = ("--unsafe-no-fsync",)


@pytest.fixture(scope="module")
def ahead(request, tmp_path_factory):
    """Members must have been connected for five seconds before another one may be added."""
    yield from side_by_side.run(request, tmp_path_factory, 3)


def password(directory, name):
    path = directory / f"{name}.password"
    path.write_text(f"{name}-password\n")
    return path


def security(kind):
    return {
        "plain": {"tls": False, "flags": FAST},
        "tls": {"tls": True, "flags": (*SERVER_TLS_ONLY, *FAST)},
        "mtls": {"tls": True, "flags": FAST},
        "mtls-auth": {"tls": True, "flags": ("--bcrypt-cost=4", *FAST)},
    }[kind]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "tls", "mtls", "mtls-auth"])
@pytest.mark.parametrize("version", VERSIONS)
@side_by_side.scenario
def test_every_call(directory, version, kind, size):
    with etcd.running(directory, size=size, version=version, **security(kind)) as cluster:
        options = etcd_programs.client_options(cluster, certificate=kind != "tls")
        if kind == "mtls-auth":
            etcd_programs.run("etcd_suite", "setup-auth", *options)
            # A certificate that is nobody: the password alone decides who we are.
            nobody = cluster.authority.issue("nobody", "nobody")
            options += ["--cert", nobody.cert, "--key", nobody.key]
            mallory = ["--user", "mallory", "--password-file", password(directory, "mallory")]
            etcd_programs.run("etcd_suite", "limited", *options, *mallory)
            options += ["--user", "root", "--password-file", password(directory, "root")]
        etcd_programs.run("etcd_suite", "all", *options)


def hex_id(number):
    return f"{number:x}"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_learner_is_seen_left_alone_and_promoted(tmp_path, raftsman, version):
    with etcd.running(tmp_path, version=version, flags=FAST) as cluster:
        processes = Processes(tmp_path / "learner", die_with_parent=True)
        learner = etcd.Cluster(processes, version=version, flags=FAST, name="learner")
        member, first = learner.members[0], cluster.members[0]
        try:
            cluster.etcdctl(
                "member", "add", "learner", "--learner", f"--peer-urls={member.peer_url}"
            )
            peers = f"{first.name}={first.peer_url},{member.name}={member.peer_url}"
            argv = [w for w in map(str, learner._argv(member)) if "--initial-cluster=" not in w]
            argv += [f"--initial-cluster={peers}", "--initial-cluster-state=existing"]
            processes.start(member.name, argv)
            both = ",".join([member.client_url, first.client_url])

            def status():
                shown = raftsman("etcd", "status", "--endpoints", both, "-o", "json")
                return json.loads(shown.stdout) if shown.returncode == 0 else None

            seen = wait.until(status, 20, "both endpoints answer")
            assert [row["role"] for row in seen["endpoints"]] == ["learner", "leader"]
            assert seen["quorum"] and seen["voters"] == 1 and seen["healthy"] == 1
            # The learner comes first in the list and refuses all of these: the client moves on.
            assert raftsman("etcd", "put", "a", "b", "--endpoints", both).returncode == 0
            assert raftsman("etcd", "members", "--endpoints", both).returncode == 0
            only = raftsman("etcd", "get", "a", "--endpoints", member.client_url)
            assert only.returncode == 1 and "rpc not supported for learner" in only.stderr
            defrag = raftsman("etcd", "defrag", "--endpoints", both, "-o", "json")
            states = [row["state"] for row in json.loads(defrag.stdout)]
            assert states == ["skipped: a learner does not do this", "done"]
            promote = ("member", "promote", seen["endpoints"][0]["memberID"])
            wait.until(lambda: succeeds(cluster, *promote), 20, "the learner is promoted")
            assert [row["role"] for row in status()["endpoints"]] == ["follower", "leader"]
        finally:
            processes.stop_all()


def joining(cluster, processes, name, authority):
    """A member of the same security that is not started yet, and how to start it."""
    other = etcd.Cluster(processes, version=cluster.version, flags=cluster._flags, name=name)
    member = other.members[0]
    other.authority, other._server = authority, cluster._server
    urls = {f: getattr(member, f).replace("http:", "https:") for f in ("client_url", "peer_url")}
    member = dataclasses.replace(member, **urls)

    def start(*before):
        peers = ",".join(f"{m.name}={m.peer_url}" for m in (*before, member))
        argv = [w for w in map(str, other._argv(member)) if "--initial-cluster=" not in w]
        argv += [f"--initial-cluster={peers}", "--initial-cluster-state=existing"]
        processes.start(name, argv)

    return member, start


@pytest.mark.parametrize("version", VERSIONS)
@side_by_side.scenario
def test_members_join_by_our_client_with_tls_and_users(directory, version):
    processes = Processes(directory / "others", die_with_parent=True)
    flags = (*SERVER_TLS_ONLY, "--bcrypt-cost=4", *FAST)
    with etcd.running(directory, version=version, tls=True, flags=flags) as cluster:
        first = cluster.members[0]
        options = etcd_programs.client_options(cluster, certificate=False)
        listed = json.loads(cluster.etcdctl("member", "list", "-w", "json"))
        etcd_programs.run("etcd_suite", "setup-auth", *options)
        options += ["--cluster-id", hex_id(listed["header"]["cluster_id"]), "--timeout-ms", 4000]
        options += ["--user", "root", "--password-file", password(directory, "root")]

        def attempt(verb, *words, to=(first,)):
            urls = ",".join(member.client_url for member in to)
            out = etcd_programs.run("etcd_try", verb, *words, *options, "--endpoints", urls)
            return [json.loads(out.splitlines()[-1]), *out.splitlines()[:-1]]

        def insist(verb, *words):
            done = wait.until(
                lambda: (r := attempt(verb, *words))[0]["code"] == "OK" and r, 30, f"{verb} works"
            )
            return done[-1]

        try:
            learner, start = joining(cluster, processes, "learner", cluster.authority)
            learner_id = insist("add-learner", learner.peer_url)
            start(first)
            wait.until(
                lambda: attempt("probe", to=(learner, first))[0]["outcomes"] == ["answered"] * 2,
                30, "the learner answers",
            )  # fmt: skip
            alone = attempt("probe", to=(learner,))[0]
            assert alone["outcomes"] == ["auth error"], alone
            assert "a learner gives no tokens: name a voter too" in alone["texts"][0]
            assert attempt("snapshot", to=(learner, first))[0]["code"] == "OK"
            assert attempt("put", "a", to=(learner, first))[0]["code"] == "OK"
            insist("promote", learner_id)
            both = (learner, first)
            wait.until(
                lambda: attempt("probe", to=both)[0]["reads"] == [True] * 2, 30, "two voters"
            )
            voter, start = joining(cluster, processes, "voter", cluster.authority)
            voter_id = insist("add-voter", voter.peer_url)
            start(first, learner)
            three = (voter, learner, first)
            wait.until(
                lambda: attempt("probe", to=three)[0]["reads"] == [True] * 3, 30, "three voters"
            )
            insist("remove", voter_id)
            assert attempt("get", "a", to=both)[0]["code"] == "OK"
        finally:
            processes.stop_all()


def succeeds(cluster, *words):
    try:
        return cluster.etcdctl(*words)
    except subprocess.CalledProcessError:
        return None


AWKWARD = ["plain", "with space", "ünïcödé", "a/b/c", "-dash", "x" * 500, 'quote"s']


@pytest.mark.parametrize("version", VERSIONS)
def test_what_one_client_writes_the_other_reads(tmp_path, raftsman, version):
    with etcd.running(tmp_path, version=version, flags=FAST) as cluster:
        ours = ("--endpoints", cluster.endpoints[0], "-o", "json")
        for number, key in enumerate(AWKWARD):
            writer = number % 2
            value = f"value of {key}\n"
            if writer:
                raftsman("etcd", "put", *ours, "--", key, value).check_returncode()
            else:
                cluster.etcdctl("put", "--", key, value)
            cluster.etcdctl("put", "--", f"{key}/gone", "x")
            raftsman("etcd", "del", *ours, "--", f"{key}/gone").check_returncode()
        theirs = json.loads(cluster.etcdctl("get", "", "--prefix", "-w", "json"))
        mine = json.loads(raftsman("etcd", "get", "", "--prefix", *ours).stdout)
        assert mine["kvs"] == theirs["kvs"]
        assert mine["revision"] == theirs["header"]["revision"]
        assert {base64.b64decode(kv["key"]).decode() for kv in mine["kvs"]} == set(AWKWARD)
        members = json.loads(raftsman("etcd", "members", *ours).stdout)
        listed = json.loads(cluster.etcdctl("member", "list", "-w", "json"))
        assert members["clusterID"] == hex_id(listed["header"]["cluster_id"])
        assert [m["id"] for m in members["members"]] == [hex_id(m["ID"]) for m in listed["members"]]
        watched = raftsman("etcd", "watch", "", "--prefix", "--rev", 1, "--events", 21, *ours)
        revisions = [json.loads(line)["kv"]["mod_revision"] for line in watched.stdout.splitlines()]
        assert revisions == list(range(2, 23))


@pytest.mark.parametrize("version", VERSIONS)
def test_leases_transactions_alarms_and_snapshots_mean_the_same_to_both(
    tmp_path, raftsman, version
):
    with etcd.running(tmp_path, version=version, flags=FAST) as cluster:
        ours = ("--endpoints", cluster.endpoints[0])
        etcd_programs.run("etcd_suite", "interop-write", *ours)
        lease = json.loads(cluster.etcdctl("lease", "timetolive", "77", "--keys", "-w", "json"))
        assert lease["granted-ttl"] == 300
        assert [base64.b64decode(key) for key in lease["keys"]] == [b"ours/leased"]
        kvs = json.loads(cluster.etcdctl("get", "ours/1", "ours/3", "-w", "json"))["kvs"]
        assert [base64.b64decode(kv["value"]) for kv in kvs] == [b"one", b"two"]
        assert kvs[0]["mod_revision"] == kvs[1]["mod_revision"]
        assert "NOSPACE" in cluster.etcdctl("alarm", "list")
        cluster.etcdctl("alarm", "disarm")
        cluster.etcdctl("lease", "revoke", "77")
        granted = cluster.etcdctl("lease", "grant", "200").split()[1]
        cluster.etcdctl("put", "--lease", granted, "theirs/leased", "x")
        subprocess.run(
            [tools.binary(f"etcd-{version}", "etcdctl"), *ours, "txn"],
            input='version("theirs/1") = "0"\n\nput theirs/1 one\nput theirs/2 two\n\n\n',
            text=True, check=True, capture_output=True, timeout=30,
        )  # fmt: skip
        etcd_programs.run("etcd_suite", "interop-read", granted, *ours)
        cluster.etcdctl("snapshot", "save", str(tmp_path / "theirs"))
        raftsman("snapshot", "save", tmp_path / "ours", *ours).check_returncode()
        mine, other = (
            json.loads(raftsman("snapshot", "status", tmp_path / name, "-o", "json").stdout)
            for name in ("ours", "theirs")
        )
        assert mine == other and mine["totalKey"] > 0


@pytest.mark.parametrize("version", ["3.6", "3.7"])
@side_by_side.scenario
def test_a_downgrade_is_enabled_and_canceled(directory, version):
    with etcd.running(directory, version=version, flags=FAST) as cluster:
        words = ("--endpoints", cluster.endpoints[0], "--timeout-ms", 60000)
        etcd_programs.run("etcd_suite", "downgrade-cycle", *words)


def test_day_two_commands(tmp_path, raftsman):
    with etcd.running(tmp_path, size=3, tls=True, flags=FAST) as cluster:
        ours = etcd_programs.client_options(cluster)

        def run(*words):
            done = raftsman("etcd", *words, *ours)
            assert done.returncode == 0, done.stderr
            return done.stdout

        rows = json.loads(run("status", "-o", "json"))
        assert rows["quorum"] and rows["healthy"] == 3
        follower = next(r["memberID"] for r in rows["endpoints"] if r["role"] == "follower")
        run("move-leader", follower)
        moved = json.loads(run("status", "-o", "json"))
        assert moved["leader"] == follower
        assert len(run("defrag").splitlines()) == 4
        cluster.etcdctl("alarm", "list")
        assert json.loads(run("alarms", "-o", "json")) == {"alarms": []}
        table = run("members").splitlines()
        assert len(table) == 4 and table[0].split() == ["ID", "NAME", "ROLE", "PEER", "CLIENT"]
        assert re.search(r'^"members":\n  - "', run("members", "-o", "yaml"), re.M)
        cluster.process(cluster.members[0]).stop(0)
        down = raftsman("etcd", "status", *ours)
        assert down.returncode == 1 and "refused" in down.stdout
        assert down.stderr == "raftsman etcd: 1 of 3 endpoints did not answer\n"
        assert raftsman("etcd", "defrag", *ours).returncode == 1  # one is down: nobody is touched


def test_a_silent_endpoint_does_not_cost_the_others_their_time(tmp_path, raftsman):
    with etcd.running(tmp_path, size=3, flags=FAST) as cluster, proxy.silence() as mute:
        everybody = ("--endpoints", ",".join([mute, *cluster.endpoints]), "--timeout", "1s")
        rows = json.loads(raftsman("etcd", "status", *everybody, "-o", "json").stdout)
        follower = next(r["memberID"] for r in rows["endpoints"] if r.get("role") == "follower")
        moved = raftsman("etcd", "move-leader", follower, *everybody)
        assert moved.returncode == 0, moved.stderr


def test_a_learner_without_a_leader_is_not_healthy(raftsman):
    """Scripted: a real one forgets its leader only while it starts, and serves nobody then."""

    def learner(leader):
        def script(c):
            c.answer(b"\x50\x01" + leader)

        with h2.server(script) as (url, _):
            shown = raftsman("etcd", "status", "--endpoints", url, "-o", "json")
            return json.loads(shown.stdout)["endpoints"][0]["state"]

    assert learner(b"") == "no leader" and learner(b"\x20\x07") == "healthy"


def test_one_member_under_two_addresses_is_one(tmp_path, raftsman):
    with etcd.running(tmp_path, size=3, flags=FAST) as cluster:
        first = cluster.endpoints[0]
        twice = ("--endpoints", f"{first},{first.replace('127.0.0.1', 'localhost')}", "-o", "json")
        status = json.loads(raftsman("etcd", "status", *twice).stdout)
        assert status["voters"] == 3 and status["healthy"] == 1 and not status["quorum"]
        rows = json.loads(raftsman("etcd", "defrag", *twice).stdout)
        assert [row["state"] for row in rows] == ["done", "skipped: the same member as before"]


def test_without_a_quorum_members_are_listed_only_as_one_knows_them(tmp_path, raftsman):
    with etcd.running(tmp_path, size=3, flags=FAST) as cluster:
        for member in cluster.members[1:]:
            cluster.process(member).stop(0)
        last = ("--endpoints", cluster.endpoints[0], "--timeout", "2s")
        assert raftsman("etcd", "members", *last).returncode == 1
        listed = raftsman("etcd", "members", "--serializable", *last)
        assert listed.returncode == 0 and len(listed.stdout.splitlines()) == 4
        defrag = raftsman("etcd", "defrag", *last)
        assert defrag.returncode == 1 and "no quorum" in defrag.stderr and defrag.stdout == ""


def test_what_a_terminal_would_obey_is_spelt_out(tmp_path, raftsman):
    value = "a\0b\x1b[2J\tü\n\\\x9b" + "x" * 500
    spelt = "a\\x00b\\x1b[2J\\x09ü\\n\\\\\\xc2\\x9b" + "x" * 500
    with etcd.running(tmp_path, flags=FAST) as cluster:
        where = ("--endpoints", cluster.endpoints[0])
        subprocess.run(
            [BINARY, "etcd", "put", "key", *where], input=value.encode(), check=True, timeout=30,
            capture_output=True,
        )  # fmt: skip
        assert raftsman("etcd", "get", "key", *where).stdout.splitlines()[1].split()[1] == spelt
        watched = raftsman("etcd", "watch", "key", "--rev", 1, "--events", 1, *where)
        assert watched.stdout == f"PUT    2 key {spelt}\n"


def test_a_watch_without_a_server_says_so_and_goes_on(tmp_path):
    processes = Processes(tmp_path, die_with_parent=True)
    cluster = etcd.Cluster(processes, flags=FAST)
    where = ["--endpoints", cluster.endpoints[0], "--timeout", "1s"]
    watch = subprocess.Popen(
        [BINARY, "etcd", "watch", "key", "--events", "1", *where],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        warning = watch.stderr.readline()
        assert "interrupted" in warning and "refused" in warning
        cluster.start()

        def seen():
            cluster.etcdctl("put", "key", "value")
            return watch.poll() == 0

        wait.until(seen, 20, "the watch found the server")
        out, err = watch.communicate()
        assert out.endswith(" key value\n") and err == "", "one warning is enough"
    finally:
        watch.kill()
        watch.communicate()
        processes.stop_all()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "say what to do: see raftsman etcd --help"),
        (["explode"], '"explode" is nothing this can do: see raftsman etcd --help'),
        (["get"], "expected get KEY"),
        (["move-leader", "xyz"], '"xyz" is no ID of up to 16 hex digits'),
        (["status", "--endpoints", "ftp://x"], None),
        (["status", "--endpoints", "https://x:1"], None),
        (
            ["get", "x", "--cert", "/dev/null", "--key", "/dev/null"],
            "--cert and --key need --cacert",
        ),
        (["get", "x", "--password-file", "/dev/null"], "--password-file needs --user"),
        (["put", "x", "y", "--prefix"], "put has no --prefix"),
        (["status", "--limit", "3"], "status has no --limit"),
        (["get", "x", "--events", "1"], "get has no --events"),
        (["del", "x", "--rev", "7"], "del has no --rev"),
        (["alarms", "--serializable"], "alarms has no --serializable"),
        (
            ["get", "x", "--user", "root:hunter2"],
            "--user takes a name only: a password on the command line is seen by others;"
            " put it into a file for --password-file",
        ),
        (
            ["get", "x", "--server-name", ""],
            '--server-name: server name "" is neither an address nor a DNS name of'
            " 1 to 253 characters",
        ),
    ],
)
def test_nonsense_is_refused_in_one_line(raftsman, words, line):
    done = raftsman("etcd", *words)
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1
    assert line is None or done.stderr == f"raftsman etcd: {line}\n"


def test_a_password_never_shows(tmp_path, raftsman):
    secret = tmp_path / "password"
    secret.write_text("hunter2-hunter2\n")
    with etcd.running(tmp_path, flags=("--bcrypt-cost=4", *FAST)) as cluster:
        etcd_programs.run("etcd_suite", "setup-auth", *etcd_programs.client_options(cluster))
        where = ("--endpoints", cluster.endpoints[0], "--log-level", "debug")
        login = ("--user", "root", "--password-file", secret)
        done = raftsman("etcd", "get", "x", *where, *login)
        assert done.returncode == 1 and "authentication failed" in done.stderr
        assert "hunter2" not in done.stdout + done.stderr
        assert "auth error" in raftsman("etcd", "status", *where, *login).stdout


def test_the_tools_are_there():
    for version in VERSIONS:
        assert tools.binary(f"etcd-{version}", "etcdctl")
