# SPDX-License-Identifier: Apache-2.0
"""A container on a process node, over its restarts, and its probes."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from rig.cgroups import ROOT, TRACKING, Group

LAST_BACKOFF = 10.0
JOIN = 'echo 0 > "$0/cgroup.procs" && exec "$@"'

# Process 1 of a pid namespace becomes the container: its children end with it, and signals mean
# what they mean in a real one.
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec")
ENTER = """
mkdir -p upper work root
mount -t overlay -o "lowerdir=$0,upperdir=upper,workdir=work" overlay root
mkdir -p root/proc root/dev root/etc
mount -t proc proc root/proc
mount --rbind /dev root/dev
cp ../etc/* root/etc
{mounts}
exec chroot "$@"
"""
MOUNT = 'mkdir -p "root{target}" && mount --bind "{source}" "root{target}"\n'


class Container:
    def __init__(self, pod, spec, policy, restarts=0):
        self._pod, self._spec, self.policy, self.restarts = pod, spec, policy, restarts
        self.ready, self.process, self._code = False, None, None
        self._last, self._directory = {}, pod.directory / spec["name"]
        self._group = Group(f"{pod.node.about['cgroup']}/pod{pod.about['uid']}/{spec['name']}")
        self._wait("ContainerCreating", 0)

    def outcome(self):
        """Succeeded or Failed if it will not run again, else None."""
        if self._code == 0 and self.policy != "Always":
            return "Succeeded"
        return "Failed" if self._code is not None and self.policy == "Never" else None

    def step(self):
        if self.process and self.process.poll() is not None:
            self._ended()
        elif self.process:
            self._probe()
        elif time.monotonic() >= self._next:
            self._start()

    def stop(self, grace):
        """TERM to the container's first process, KILL to all of it later."""
        if not self.process:
            return
        with contextlib.suppress(ValueError, ProcessLookupError):
            os.kill(int(self._main_pid()), signal.SIGTERM)
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self._group.kill()
            self.process.wait()
        self._ended()

    def execute(self, command, seconds):
        """Whether a command in the container succeeds in time."""
        words = ["timeout", "--signal=KILL", str(seconds), "nsenter", "--all", "--root"]
        words += [f"--target={self._main_pid()}", *command]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    def status(self):
        return {
            "name": self._spec["name"],
            "image": self._spec["image"],
            "containerID": f"process://{self._spec['name']}",
            "ready": self.ready,
            "restartCount": self.restarts,
            "state": self._state,
            "lastState": self._last,
        }

    def _start(self):
        pod, spec = self._pod, self._spec
        if not (image := pod.node.image(spec["image"])):
            self._wait("ErrImageNeverPull", LAST_BACKOFF)
            return
        group = ROOT / TRACKING / self._group.path
        logs = pod.node.directory / "log" / "pods" / f"{pod.about['namespace']}_{pod.about['name']}"
        for directory in group, logs, self._directory:
            directory.mkdir(parents=True, exist_ok=True)
        mounts = [(pod.volumes[m["name"]], m["mountPath"]) for m in spec.get("volumeMounts", [])]
        script = ENTER.format(mounts="".join(MOUNT.format(source=s, target=t) for s, t in mounts))
        words = ["sh", "-c", JOIN, group, *pod.enter, *UNSHARE, script, image.root]
        words += [*self._user(), "root", *image.command(spec)]
        env = image.environment | {e["name"]: self._value(e) for e in spec.get("env", [])}
        with (logs / f"{spec['name']}.log").open("ab") as log:
            files = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.process = subprocess.Popen(words, cwd=self._directory, env=env, **files)
        self._state = {"running": {}}
        self._probes = {key: Probe(spec[key]) for key in spec if key.endswith("Probe")}

    def _user(self):
        """The options of chroot(1) for the Pod's security context."""
        context = self._pod.spec["securityContext"]
        uid, gid = context.get("runAsUser", 0), context.get("runAsGroup", 0)
        return f"--userspec={uid}:{gid}", f"--groups={context.get('fsGroup', gid)}"

    def _value(self, entry):
        """Of a variable: the text that is given, or the metadata of the Pod that is named."""
        if "valueFrom" not in entry:
            return entry.get("value", "")
        return self._pod.about[entry["valueFrom"]["fieldRef"]["fieldPath"].partition(".")[2]]

    def _probe(self):
        verdicts = {k: probe.check(self, self._pod.address) for k, probe in self._probes.items()}
        self.ready = bool(verdicts.get("readinessProbe", True))
        if verdicts.get("livenessProbe") is False:
            self.stop(self._pod.spec["terminationGracePeriodSeconds"])

    def _ended(self):
        """Note the exit code as a shell would say it, and when to start again."""
        code = self.process.returncode
        self.process, self.ready, self._code = None, False, 128 - code if code < 0 else code
        self._state = self._last = {"terminated": {"exitCode": self._code}}
        if not self.outcome():
            self.restarts += 1
            self._wait("CrashLoopBackOff", min(self.restarts / 2, LAST_BACKOFF))

    def _wait(self, reason, seconds):
        self._state = {"waiting": {"reason": reason}}
        self._next = time.monotonic() + seconds

    def _main_pid(self):
        """Of the process that is 1 in the container; empty before it runs and after it ended."""
        pid = self.process.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()


class Probe:
    """One probe of one run of a container. The apiserver has filled in the defaults."""

    def __init__(self, spec):
        self._spec = spec
        self._due = time.monotonic() + spec.get("initialDelaySeconds", 0)
        self._failures, self._verdict = 0, None

    def check(self, container, address):
        """Probe if it is time. True after a success, False after enough failures, None before."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._spec["periodSeconds"]
            success = self._try(container, address, self._spec["timeoutSeconds"])
            self._failures = 0 if success else self._failures + 1
            if success or self._failures >= self._spec["failureThreshold"]:
                self._verdict = success
        return self._verdict

    def _try(self, container, address, seconds):
        if action := self._spec.get("exec"):
            return container.execute(action["command"], seconds)
        try:
            if action := self._spec.get("tcpSocket"):
                socket.create_connection((address, action["port"]), seconds).close()
                return True
            action = self._spec["httpGet"]
            client = http.client.HTTPConnection(address, action["port"], timeout=seconds)
            client.request("GET", action["path"])
            return client.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
