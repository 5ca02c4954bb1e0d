# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: what it prints, where, and with which exit code."""

import json
import signal
import subprocess
import time
import urllib.request

import pytest

from conftest import BINARY, REPOSITORY
from rig import ports
from rig.process import catches
from rig.wait import until


def test_version_and_help(raftsman):
    version = raftsman("--version")
    assert version.returncode == 0 and version.stdout.startswith("raftsman ")
    overview = raftsman("--help")
    assert overview.returncode == 0 and "convert" in overview.stdout and overview.stderr == ""
    command = raftsman("convert", "--help")
    assert command.returncode == 0 and "--max-input" in command.stdout


def test_the_reference_page_is_current(raftsman):
    """Renew it with: build/raftsman reference >docs/reference.md"""
    assert raftsman("reference").stdout == (REPOSITORY / "docs" / "reference.md").read_text()


def test_values_come_out_canonical(raftsman):
    assert raftsman("convert", "quantity", "1.5Gi", "0.5").stdout == "1536Mi\n500m\n"
    assert raftsman("convert", "duration", "90m").stdout == "1h30m0s\n"
    assert raftsman("convert", "time", "2026-01-02T03:04:05+01:00").stdout == (
        "2026-01-02T02:04:05Z\n"
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "raftsman: a subcommand is missing; see raftsman --help"),
        (["bogus"], "raftsman: unknown subcommand bogus; see raftsman --help"),
        (["--bogus"], "raftsman: unknown option --bogus; see raftsman --help"),
        (["convert", "--bogus"], "raftsman convert: unknown option --bogus"),
        (
            ["convert", "--timeout", "5x", "time"],
            'raftsman convert: --timeout: "5x" is not a duration: unknown unit '
            "(use ns, us, ms, s, m, h)",
        ),
        (
            ["convert", "--max-input=1Qi", "time"],
            'raftsman convert: --max-input: "1Qi" is not a quantity: unknown suffix '
            "(use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e3)",
        ),
        (
            ["convert", "--file", "/no/such/file", "time"],
            'raftsman convert: --file: "/no/such/file": No such file or directory',
        ),
        (
            ["convert", "--log-level", "loud", "time"],
            'raftsman convert: --log-level: "loud" is none of debug, info, warn, error',
        ),
        (["convert", "--file"], "raftsman convert: --file: a value is missing"),
        (["convert"], "raftsman convert: say what to convert: quantity, duration or time"),
        (["convert", "cats"], 'raftsman convert: "cats" is none of quantity, duration, time'),
        (
            ["convert", "duration", "5"],
            'raftsman convert: "5" is not a duration: the unit is missing (ns, us, ms, s, m, h)',
        ),
        (["reference", "x"], "raftsman reference: unexpected argument x"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(raftsman, words, line):
    result = raftsman(*words)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", line + "\n")


def test_a_bad_variable_is_named(raftsman):
    result = raftsman("convert", "time", env={"RAFTSMAN_TIMEOUT": "soon"})
    assert result.returncode == 2
    assert result.stderr.startswith('raftsman convert: RAFTSMAN_TIMEOUT: "soon" is not a duration')


def test_one_bad_line_of_a_file_and_nothing_is_printed(raftsman, tmp_path):
    values = tmp_path / "values"
    values.write_text("1Gi\n\n 2Gi \n5x\n")
    result = raftsman("convert", "quantity", "--file", values)
    assert (result.returncode, result.stdout) == (2, "")
    assert f'{values}: line 4: "5x" is not a quantity' in result.stderr


def test_a_file_past_its_ceiling_is_refused(raftsman, tmp_path):
    values = tmp_path / "values"
    values.write_text("1Gi\n" * 1000)
    result = raftsman("convert", "quantity", "--file", values, "--max-input", "1k")
    assert result.returncode == 1
    assert result.stderr == f"raftsman convert: {values}: more than 1000 bytes\n"


@pytest.mark.parametrize(
    ("name", "subcommand"), [("manager", "operator"), ("kubectl-etcd", "etcd")]
)
def test_another_program_name_selects_the_subcommand(raftsman, tmp_path, name, subcommand):
    """The name decides, not the first argument; a subcommand this build lacks is said to be."""
    link = tmp_path / name
    link.symlink_to(BINARY)
    result = raftsman("--help", program=link)
    known = raftsman(subcommand, "--help")
    if known.returncode == 0:
        assert result.stdout == known.stdout
    else:
        assert result.returncode == 2
        assert result.stderr == (
            f'raftsman: called as {link}, which is the subcommand "{subcommand}": '
            "this version does not have it\n"
        )
    assert raftsman("--version", program=link).stdout == raftsman("--version").stdout


def test_logs_are_json_lines_on_standard_error(raftsman, tmp_path):
    values = tmp_path / "values"
    values.write_text("1Gi\n")
    result = raftsman("convert", "quantity", "-f", values, "--log-level", "debug")
    (line,) = map(json.loads, result.stderr.splitlines())
    assert line["level"] == "debug" and line["command"] == "convert" and line["bytes"] == 4
    assert raftsman("convert", "quantity", "-f", values).stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_blocked_read_at_once(number):
    child = subprocess.Popen(
        [BINARY, "convert", "quantity", "-f", "/dev/stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: catches(child.pid, number), 10, "it handles the signal", every=0.01)
    begin = time.monotonic()
    child.send_signal(number)
    assert child.wait(timeout=5) == 1
    assert time.monotonic() - begin < 1
    assert child.stderr.read() == "raftsman convert: /dev/stdin: canceled\n"
    child.stdin.close()
    child.stdout.close()
    child.stderr.close()


def test_a_closed_pipe_is_an_error_not_a_death(raftsman):
    result = subprocess.run(
        f"{BINARY} convert quantity 1Gi 2>&1 >/dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stdout == ("raftsman convert: standard output: write: No space left on device\n")


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: none}}]
"""


@pytest.mark.parametrize(
    "flags",
    [
        ["--watch-namespace", ",".join(f"n{i}" for i in range(65))],
        ["--watch-namespace", "n" * 64],
        ["--max-concurrent-disruptions", "0"],
        ["--cluster-domain", "cluster..local"],
        ["--zap-log-level", "0"],
        ["--zap-log-level", "loud"],
        ["--zap-encoder", "xml"],
        ["--zap-devel=perhaps"],
        ["--zap-stacktrace-level", "error"],
        ["--zap-time-encoding", "iso8601"],
    ],
)
def test_an_operator_with_wrong_options_does_not_start(raftsman, tmp_path, flags):
    (tmp_path / "config").write_text(KUBECONFIG)
    result = raftsman("operator", "--kubeconfig", tmp_path / "config", *flags)
    assert result.returncode == 2
    (said,) = [line for line in result.stderr.splitlines() if not line.startswith("{")]
    assert flags[0].partition("=")[0] in said


def test_a_placeholder_is_no_operator_image(raftsman, tmp_path):
    (tmp_path / "config").write_text(KUBECONFIG)
    environment = {"OPERATOR_IMAGE": "controller:latest"}
    result = raftsman("operator", "--kubeconfig", tmp_path / "config", env=environment)
    assert result.returncode == 1
    assert "controller:latest" in result.stderr and result.stderr.count("\n") == 1


@pytest.fixture
def first_line(tmp_path):
    """What an operator with these flags says first."""

    def start(*flags):
        (tmp_path / "config").write_text(KUBECONFIG)
        words = [BINARY, "operator", "--kubeconfig", tmp_path / "config"]
        words += ["--metrics-bind-address=0", "--health-probe-bind-address=0", *flags]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            try:
                return process.stderr.readline()
            finally:
                process.kill()

    return start


@pytest.mark.parametrize(
    ("flags", "form"),
    [
        ([], "json"),
        (["--zap-devel"], "text"),
        (["--zap-encoder=console"], "text"),
        (["--zap-devel", "--zap-encoder=json"], "json"),
        (["--zap-devel", "--log-format=json"], "json"),
        (["--zap-encoder=console", "--log-format=json"], "json"),
        (["--zap-encoder=json", "--log-format=text"], "text"),
    ],
)
def test_upstreams_logger_flags_choose_the_form_unless_ours_do(first_line, flags, form):
    line = first_line(*flags)
    assert "operator starts" in line
    assert line.startswith("{") == (form == "json")


LEVELS = [
    ("", {"info", "warn"}),
    ("--zap-log-level=error", set()),
    ("--zap-log-level=panic", set()),
    ("--zap-log-level=3", {"debug", "info", "warn"}),
    ("--zap-devel --zap-encoder=json", {"debug", "info", "warn"}),
    ("--zap-devel --zap-encoder=json --zap-log-level=info", {"info", "warn"}),
    ("--zap-log-level=debug --log-level=info", {"info", "warn"}),
    ("--zap-log-level=error --log-level=debug", {"debug", "info", "warn"}),
]


def test_upstreams_logger_flags_choose_the_level_unless_ours_do(tmp_path):
    """An operator whose API server does not answer says so once as a warning, then at debug."""
    (tmp_path / "config").write_text(KUBECONFIG)
    words = [BINARY, "operator", "--kubeconfig", tmp_path / "config", "--leader-elect"]
    words += ["--lease-namespace=raftsman"]
    words += ["--metrics-bind-address=0", "--health-probe-bind-address=0"]
    running = [
        subprocess.Popen([*words, *flags.split()], stderr=subprocess.PIPE, text=True)
        for flags, _ in LEVELS
    ]
    time.sleep(5)  # it tries again every other second
    found = []
    for process in running:
        process.terminate()
        lines = process.communicate(timeout=10)[1].splitlines()
        found.append({json.loads(line)["level"] for line in lines if line.startswith("{")})
    assert found == [levels for _, levels in LEVELS]


def test_an_operator_shows_its_domain_and_image(tmp_path, first_line):
    flags = ["--cluster-domain=k8s.example", "--operator-image=example.test/raftsman:v1"]
    line = json.loads(first_line(*flags))
    assert line["cluster_domain"] == "k8s.example"
    assert line["operator_image"] == "example.test/raftsman:v1"
    address = f"127.0.0.1:{ports.free()}"
    words = [BINARY, "operator", "--kubeconfig", tmp_path / "config", *flags]
    words += [f"--metrics-bind-address={address}", "--health-probe-bind-address=0"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            text = until(lambda: metrics(address), 10, "metrics are served")
        finally:
            process.kill()
    info = 'cluster_domain="k8s.example",operator_image="example.test/raftsman:v1"'
    assert f"raftsman_operator_info{{{info}}} 1" in text.splitlines()


def metrics(address):
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=2) as answer:
            return answer.read().decode()
    except OSError:
        return None
