# SPDX-License-Identifier: Apache-2.0
"""What a server may do to an HTTP/2 connection, and the one code each of it must become."""

import contextlib
import hashlib
import json
import socket
import ssl
import time

import pytest

import etcd_programs
from fault import h2, proxy
from rig import pki


def attempt(verb, url, *words, timeout_ms=2000):
    began = time.monotonic()
    out = etcd_programs.run(
        "etcd_try", verb, "key", "--endpoints", url, "--timeout-ms", timeout_ms, *words
    )
    seconds = time.monotonic() - began
    assert seconds < timeout_ms / 1000 + 3, "it took longer than its deadline and a start"
    result = json.loads(out.splitlines()[-1])
    assert result["ms"] <= timeout_ms + 300, result
    return result


def refused(c):
    c.frame(h2.RST_STREAM, 0, (h2.REFUSED_STREAM).to_bytes(4))


def reset(c):
    c.frame(h2.RST_STREAM, 0, (h2.INTERNAL_ERROR).to_bytes(4))


def goaway_before(c):
    c.frame(h2.GOAWAY, 0, bytes(4) + (h2.NO_ERROR).to_bytes(4), stream=0)


def goaway_after(c):
    c.frame(h2.GOAWAY, 0, c.stream.to_bytes(4) + (h2.NO_ERROR).to_bytes(4), stream=0)
    c.answer()


def goaway_and_gone(c):
    c.frame(
        h2.GOAWAY, 0, c.stream.to_bytes(4) + (h2.CALM).to_bytes(4) + b"too_many_pings", stream=0
    )
    c.close()


def trailers_only(c):
    c.headers(*h2.GRPC, ("grpc-status", "14"), ("grpc-message", "etcdserver: no leader"), end=True)


def trailers_only_unknown(c):
    c.headers(*h2.GRPC, ("grpc-status", "14"), ("grpc-message", "transport is closing"), end=True)


def encoded_text(c):
    c.headers(*h2.GRPC)
    c.trailers(5, "etcdserver: %6Dember not found")


def unavailable_page(c):
    c.headers((":status", "503"), ("content-type", "text/html"))
    c.data(b"<h1>busy</h1>" * 100, end=True)


def gateway_page(c):
    c.headers((":status", "502"), ("content-type", "text/html"), end=True)


def throttled_page(c):
    c.headers((":status", "429"), end=True)


def timeout_page(c):
    c.headers((":status", "408"), end=True)


def forbidden(c):
    c.headers((":status", "403"), end=True)


def no_status(c):
    c.headers(*h2.GRPC)
    c.data(h2.message(), end=True)


def no_message(c):
    c.headers(*h2.GRPC)
    c.trailers(0)


def two_messages(c):
    c.headers(*h2.GRPC)
    c.data(h2.message() + h2.message())
    c.trailers(0)


def half_a_message(c):
    c.headers(*h2.GRPC)
    c.data(h2.message(b"abc", length=10))
    c.trailers(0)


def compressed(c):
    c.headers(*h2.GRPC)
    c.data(h2.message(b"abc", flag=1))
    c.trailers(0)


def oversized(c):
    c.headers(*h2.GRPC)
    c.data(h2.message(b"abc", length=0xFFFFFFFF))
    c.trailers(0)


def nonsense_message(c):
    c.answer(b"\xff\xff\xff\xff")


def closed(c):
    c.close()


def silent(c):
    pass


def header_flood(c):
    c.headers(*h2.GRPC, *((f"x-{number}", "y" * 1000) for number in range(200)))
    c.trailers(0)


def interim(c):
    c.headers((":status", "103"), ("link", "x"))
    c.answer()


def trickle(c):
    c.headers(*h2.GRPC)
    for byte in h2.message(b""):
        c.data(bytes([byte]))
    c.trailers(0)


def padded_and_reset(c):
    """Complete, and then a reset without error: as servers do that did not read the whole body."""
    c.answer()
    c.frame(h2.RST_STREAM, 0, (h2.NO_ERROR).to_bytes(4))


def bad_stream(c):
    c.frame(h2.DATA, 0, b"x", stream=0)


def huge_frame(c):
    c.raw(b"\xff\xff\xff\x00\x00" + c.stream.to_bytes(4) + b"x" * 100)


def bad_headers(c):
    c.frame(h2.HEADERS, h2.END_HEADERS, b"\xff" * 50)


NOT_DONE, PERHAPS = "UNAVAILABLE", "OUTCOME_UNKNOWN"


@pytest.mark.parametrize(
    ("script", "read", "write"),
    [
        (reset, "UNAVAILABLE", PERHAPS),
        (goaway_after, "OK", "OK"),
        (goaway_and_gone, "UNAVAILABLE", PERHAPS),
        (trailers_only, "UNAVAILABLE", NOT_DONE),
        (trailers_only_unknown, "UNAVAILABLE", PERHAPS),
        (encoded_text, "NOT_FOUND", "NOT_FOUND"),
        (unavailable_page, "UNAVAILABLE", PERHAPS),
        (gateway_page, "UNAVAILABLE", PERHAPS),
        (throttled_page, NOT_DONE, NOT_DONE),
        (timeout_page, "UNAVAILABLE", PERHAPS),
        (forbidden, "DENIED", "DENIED"),
        (no_status, "UNAVAILABLE", PERHAPS),
        (no_message, "CORRUPT", PERHAPS),
        (two_messages, "CORRUPT", PERHAPS),
        (half_a_message, "CORRUPT", PERHAPS),
        (compressed, "CORRUPT", PERHAPS),
        (oversized, "TOO_BIG", PERHAPS),
        (nonsense_message, "CORRUPT", PERHAPS),
        (closed, "UNAVAILABLE", PERHAPS),
        (silent, "TIMEOUT", PERHAPS),
        (header_flood, "TOO_BIG", PERHAPS),
        (interim, "OK", "OK"),
        (trickle, "OK", "OK"),
        (padded_and_reset, "OK", "OK"),
        (bad_stream, "UNAVAILABLE", PERHAPS),
        (huge_frame, "UNAVAILABLE", PERHAPS),
        (bad_headers, "UNAVAILABLE", PERHAPS),
    ],
)
def test_each_misbehaviour_has_one_code(script, read, write):
    with h2.server(script) as (url, seen):
        assert attempt("get", url)["code"] == read
        del seen[:]
        assert attempt("put", url)["code"] == write
        assert len(seen) == 1, "a mutating call is sent once"


@pytest.mark.parametrize("script", [refused, goaway_before])
def test_a_call_turned_away_unseen_is_made_once_more_on_a_new_connection(script):
    with h2.server(script) as (url, seen):
        for verb in "get", "put":
            del seen[:]
            assert attempt(verb, url)["code"] == NOT_DONE
            assert seen == [1, 1], "the first call of two connections"

    def second_time(c):
        (h2.Connection.answer if len(seen) == 2 else script)(c)

    with h2.server(second_time) as (url, seen):
        assert attempt("put", url)["code"] == "OK"


@pytest.mark.parametrize("script", [unavailable_page, gateway_page, no_status, closed])
def test_what_was_perhaps_done_is_not_sent_to_a_second_endpoint(script):
    with h2.server(script) as (first, _), h2.server(trickle) as (second, seen):
        assert attempt("put", f"{first},{second}")["code"] == PERHAPS
        assert seen == []
        assert attempt("get", f"{first},{second}")["code"] == "OK"


@pytest.mark.parametrize(
    ("verb", "code"), [("put-too-late", "UNAVAILABLE"), ("put-canceled", "CANCELED")]
)
def test_a_call_nobody_waits_for_any_more_is_not_sent(verb, code):
    with h2.server(trickle) as (url, seen):
        assert attempt(verb, url)["code"] == code
        assert len(seen) == 1, "the call before it, and nothing else"


def piece_of_snapshot(blob):
    return h2.message(b"\x10\x80\x80\x40\x1a" + bytes([len(blob)]) + blob)


def test_a_reader_that_is_slow_has_a_deadline_all_the_same():
    def all_at_once(c):
        c.headers(*h2.GRPC)
        c.data(piece_of_snapshot(b"x" * 100) * 200)

    with h2.server(all_at_once) as (url, _):
        assert attempt("slow-snapshot", url, timeout_ms=500)["code"] == "TIMEOUT"


def piece_of_lease(c):
    c.headers(*h2.GRPC)
    c.data(h2.message(b"\x10\x01\x18\x0a"))


def token(c):
    c.answer(b"\x12\x05token")


def token_not_taken(c):
    c.headers(*h2.GRPC)
    c.trailers(16, "etcdserver: invalid auth token")


def in_turn(scripts):
    left = iter(scripts)

    def script(c):
        next(left)(c)

    return script


def whole_snapshot(c):
    database = bytes(512)
    c.headers(*h2.GRPC)
    for piece in database, hashlib.sha256(database).digest():
        c.data(h2.message(b"\x1a" + bytes([len(piece) & 127 | 128, len(piece) >> 7]) + piece))
    c.trailers(0)


def root(tmp_path):
    password = tmp_path / "password"
    password.write_text("secret")
    return ("--user", "root", "--password-file", password)


def test_a_snapshot_gets_a_new_token_before_its_first_byte(tmp_path):
    story = [token, token_not_taken, token, whole_snapshot]
    with h2.server(in_turn(story)) as (url, seen):
        assert attempt("snapshot", url, *root(tmp_path))["code"] == "OK"
        assert len(seen) == 4
    with h2.server(in_turn([token, token_not_taken] * 2)) as (url, seen):
        assert attempt("snapshot", url, *root(tmp_path))["code"] == "DENIED"


def test_a_lease_is_renewed_across_a_broken_stream_and_a_lost_token(tmp_path):
    story = [token, reset, token_not_taken, token, piece_of_lease]
    with h2.server(in_turn(story), whole=False) as (url, seen):
        assert attempt("lease", url, *root(tmp_path))["code"] == "OK"
        assert len(seen) == 5


def goaway(c, last):
    c.frame(h2.GOAWAY, 0, last.to_bytes(4) + (h2.NO_ERROR).to_bytes(4), stream=0)


def test_a_goaway_inside_a_stream_lets_it_end_and_a_watch_go_on():
    def snapshot(c):
        goaway(c, c.stream)
        whole_snapshot(c)

    with h2.server(snapshot) as (url, seen):
        assert attempt("snapshot", url)["code"] == "OK" and len(seen) == 1

    def created(c):
        c.headers(*h2.GRPC)
        c.data(h2.message(b"\x10\x01\x18\x01"))

    def created_and_gone(c):
        created(c)
        goaway(c, c.stream)
        c.close()

    def created_and_event(c):
        created(c)
        event = b"\x12\x07\x0a\x03key\x18\x05"
        c.data(h2.message(b"\x10\x01\x5a" + bytes([len(event)]) + event))

    story = [created_and_gone, created_and_event]
    with h2.server(in_turn(story), whole=False) as (url, seen):
        assert attempt("watch", url)["code"] == "OK" and len(seen) == 2


def test_a_lease_that_cannot_be_renewed_in_time_says_why():
    result = attempt("lease", "http://127.0.0.1:1", timeout_ms=700)
    assert result["code"] == "TIMEOUT" and "refused" in result["text"], result


@pytest.mark.parametrize(
    "bytes_said",
    [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"\0" * 5000,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        h2.frame(h2.SETTINGS, 0, 0) + h2.frame(h2.GOAWAY, 0, 0, bytes(8)),
    ],
    ids=["http1", "tls", "zeroes", "ssh", "goodbye"],
)
def test_a_server_of_another_kind_is_unavailable(bytes_said):
    with h2.talker(bytes_said) as url:
        assert attempt("get", url)["code"] == "UNAVAILABLE"
        assert attempt("put", url)["code"] in (NOT_DONE, PERHAPS)


def chatty(c):
    """Frames that mean little, each on its own, so that the answer comes while we are busy."""
    for _ in range(40):
        c.frame(h2.WINDOW_UPDATE, 0, (1).to_bytes(4), stream=0)
    c.answer(b"\x12\x05token" if c.stream == 1 else b"")


def chatty_and_gone(c):
    for _ in range(40):
        c.frame(h2.WINDOW_UPDATE, 0, (1).to_bytes(4), stream=0)
    c.close()


@pytest.mark.parametrize(
    ("script", "outcome"), [(chatty, "answered"), (chatty_and_gone, "refused")]
)
def test_a_probe_notices_an_answer_whenever_it_comes(tmp_path, script, outcome):
    password = tmp_path / "password"
    password.write_text("secret")
    rounds = 200
    login = ("--user", "root", "--password-file", password, "--count", rounds)
    with h2.server(script) as (url, _):
        out = etcd_programs.run(
            "etcd_try", "probe", "--endpoints", url, "--timeout-ms", 10000, *login
        )
    results = [json.loads(line) for line in out.splitlines()]
    assert len(results) == rounds
    assert {o for r in results for o in r["outcomes"]} == {outcome}
    assert max(r["ms"] for r in results) < 5000, "an answer that was read lay until the deadline"


def probe(*urls, words=(), timeout_ms=2000):
    out = etcd_programs.run(
        "etcd_try", "probe", "--endpoints", ",".join(urls), "--timeout-ms", timeout_ms, *words
    )
    return json.loads(out)


def test_one_member_that_hangs_in_a_login_does_not_silence_the_others(tmp_path):
    login = root(tmp_path)
    with h2.server(silent) as (mute, _), h2.server(chatty) as (good, _):
        seen = probe(mute, good, good, words=login)
        assert seen["outcomes"] == ["timed out", "answered", "answered"]
        seen = probe(mute, mute, good, words=login)
        assert seen["outcomes"] == ["timed out", "timed out", "answered"]


def login_hangs(c):
    """Users only, and nobody can become one."""
    if c.stream > 1:
        c.headers(*h2.GRPC)
        c.trailers(3, "etcdserver: user name is empty")


def test_without_any_token_the_answer_is_that_it_is_missing(tmp_path):
    with h2.server(login_hangs) as (url, _):
        seen = probe(url, words=root(tmp_path))
    assert seen["outcomes"] == ["auth error"] and "no answer to the login" in seen["texts"][0]
    assert 450 < seen["ms"] < 1500, "a quarter of the time, then the question without a token"


def token_lost_half_way(c):
    """Gives a token, answers the status, and then does not know the token; the next one it does."""
    if c.stream in (1, 9):
        token(c)
    elif c.stream in (5, 7):
        token_not_taken(c)
    else:
        c.answer()


def test_a_token_refused_after_half_the_answers_leaves_nothing_of_them(tmp_path):
    with h2.server(token_lost_half_way) as (url, requests):
        seen = probe(url, words=root(tmp_path))
    assert seen["outcomes"] == ["answered"] and seen["reads"] == [True]
    assert requests == [1, 3, 5, 7, 9, 11, 13, 15]


def rights_missing(c):
    if c.stream == 1:
        c.answer()
    else:
        c.headers(*h2.GRPC)
        c.trailers(7, "etcdserver: permission denied")


def precondition(c):
    c.headers(*h2.GRPC)
    c.trailers(9, "something new")


def aborted(c):
    c.headers(*h2.GRPC)
    c.trailers(10, "something new")


def test_a_read_that_only_rights_forbid_took_place():
    with h2.server(rights_missing) as (url, _):
        seen = probe(url)
    assert seen["outcomes"] == ["answered"] and seen["reads"] == [True]


@pytest.mark.parametrize("script", [precondition, aborted])
def test_a_refusal_of_an_unknown_kind_makes_no_foreigner(script):
    with h2.server(script) as (url, _):
        assert probe(url, words=("--cluster-id", "77"))["outcomes"] == ["failed"]


def test_who_does_not_say_whose_it_is_is_not_trusted():
    with h2.server(trickle) as (url, seen):
        result = attempt("put", url, "--cluster-id", "77")
        assert result["code"] == "CONFLICT" and "does not say" in result["text"]
        assert len(seen) == 1, "its status was asked for, nothing was put"
        assert probe(url, words=("--cluster-id", "77"))["outcomes"] == ["foreign"]


def foreign_watch(c):
    c.headers(*h2.GRPC)
    c.data(h2.message(b"\x0a\x02\x08\x55\x10\x01\x18\x01"))


def users_only(c):
    c.headers(*h2.GRPC)
    c.trailers(3, "etcdserver: user name is empty")


def test_another_cluster_sees_no_password(tmp_path):
    words = ("--cluster-id", "77", *root(tmp_path))
    with h2.server(in_turn([users_only, foreign_watch]), whole=False) as (url, seen):
        result = attempt("put", url, *words)
        assert result["code"] == "CONFLICT" and "belongs to cluster 55" in result["text"]
        assert len(seen) == 2, "its status and a watch were asked for, and that was all"
    with h2.server(foreign_watch, whole=False) as (url, seen):
        assert probe(url, words=words)["outcomes"] == ["foreign"]
        assert len(seen) == 1


def test_a_learner_that_goes_while_another_member_gives_the_token(tmp_path):
    def last_words(c):
        with contextlib.suppress(OSError):
            gone._listener.shutdown(socket.SHUT_RDWR)
        gone._listener.close()
        goaway(c, c.stream)
        c.headers(*h2.GRPC)
        c.trailers(9, "etcdserver: rpc not supported for learner")

    with (
        h2.server(last_words) as (learner, _),
        proxy.before(learner) as gone,
        h2.server(chatty) as (voter, _),
    ):
        assert attempt("get", f"{gone.url},{voter}", *root(tmp_path))["code"] == "OK"


def flood(c):
    c.answer(b"\x12\x80\x80\x80\x01" + b"x" * (2 << 20))


def test_a_probe_takes_no_large_answers():
    with h2.server(flood) as (url, _):
        assert probe(url)["outcomes"] == ["failed"]


@pytest.mark.parametrize("verb", ["put", "get"])
def test_a_black_hole_ends_at_the_deadline(verb):
    with proxy.black_hole() as url:
        result = attempt(verb, url, timeout_ms=800)
        assert result["code"] == {"put": "UNAVAILABLE", "get": "TIMEOUT"}[verb]
        assert result["ms"] >= 790


def test_nobody_there():
    assert attempt("put", "http://127.0.0.1:1")["code"] == "UNAVAILABLE"
    assert attempt("get", "http://no-such-host.invalid:1")["code"] == "UNAVAILABLE"
    assert attempt("get", "unix:///nowhere/etcd.sock")["code"] == "UNAVAILABLE"


def test_every_kind_of_address(tmp_path):
    authority = pki.Authority(tmp_path / "pki")
    context = server_context(authority, "127.0.0.1", "::1", "member.example")
    context.set_alpn_protocols(["h2"])
    named = ["--cacert", authority.cert, "--server-name", "member.example"]
    for number, address in enumerate(["127.0.0.1", "::1", f"{tmp_path}/socket"]):
        with h2.server(trickle, address=address) as (url, _):
            assert attempt("put", url)["code"] == "OK", url
        suffix = ".tls" if address[0] == "/" else ""
        with h2.server(trickle, tls=context, address=address + suffix) as (url, _):
            assert attempt("put", url, *named)["code"] == "OK", url
            if number < 2:  # an address in the certificate is as good as a name
                assert attempt("put", url, "--cacert", authority.cert)["code"] == "OK", url
            if number == 1:  # a zone is for the way there; the certificate does not have it
                zoned = url.replace("[::1]", "[::1%1]")
                assert attempt("put", zoned, "--cacert", authority.cert)["code"] == "OK"
                words = ["--cacert", authority.cert, "--server-name", "::1%1"]
                assert attempt("put", url, *words)["code"] == "OK"


def server_context(authority, *hosts):
    pair = authority.issue("odd", "odd", hosts=hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def test_a_tls_server_without_http2_is_refused(tmp_path):
    authority = pki.Authority(tmp_path)
    context = server_context(authority, "127.0.0.1")
    with h2.server(silent, tls=context) as (url, seen):
        result = attempt("put", url, "--cacert", authority.cert)
        assert result["code"] == "UNAVAILABLE" and "HTTP/2" in result["text"]
        assert result["reason"] == "TLS" and seen == []


def test_calls_move_on_from_wrong_certificates_and_tell_of_them_if_nobody_is_left(tmp_path):
    trusted = pki.Authority(tmp_path / "trusted")
    good = server_context(trusted, "127.0.0.1")
    bad = server_context(pki.Authority(tmp_path / "other", "other"), "127.0.0.1")
    for context in good, bad:
        context.set_alpn_protocols(["h2"])
    words = ["--cacert", trusted.cert]
    with h2.server(trickle, tls=bad) as (wrong, _), h2.server(trickle, tls=good) as (right, _):
        for verb in "get", "put":
            assert attempt(verb, f"{wrong},{right}", *words)["code"] == "OK"
            result = attempt(verb, f"{wrong},https://127.0.0.1:1", *words)
            assert result["code"] == "DENIED" and result["reason"] == "TLS", result


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_old_tls_is_refused(tmp_path):
    authority = pki.Authority(tmp_path)
    context = server_context(authority, "127.0.0.1")
    context.set_alpn_protocols(["h2"])
    context.minimum_version = ssl.TLSVersion.TLSv1_1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with h2.server(silent, tls=context) as (url, seen):
        result = attempt("put", url, "--cacert", authority.cert)
        assert result["code"] == "UNAVAILABLE" and result["reason"] == "TLS" and seen == []
