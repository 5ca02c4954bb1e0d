# SPDX-License-Identifier: Apache-2.0
"""A Pod on a process node. Volumes and environment are in `rig.podfiles`, namespaces and processes
in `rig.sandbox`."""

import datetime
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from rig.api import FAILURES
from rig.podfiles import PodFiles, expand
from rig.probes import Probe
from rig.sandbox import Container, Sandbox

TICK = 0.1
REFRESH_SECONDS = 5.0
FIRST_BACKOFF, LAST_BACKOFF = 0.5, 10.0
NAME_FILES = ("hosts", "resolv.conf")


def timestamp(fraction=""):
    return datetime.datetime.now(datetime.UTC).strftime(f"%Y-%m-%dT%H:%M:%S{fraction}Z")


class Pod(threading.Thread):
    """One Pod, from its first container to its last status."""

    def __init__(self, node, pod, number):
        super().__init__(daemon=True)
        self.node, self.seen, self.spec = node, pod, pod["spec"]
        about = pod["metadata"]
        self.group = f"{node.about['cgroup']}/pod{about['uid']}"
        self.directory = node.directory / "pods" / about["uid"]
        self.address = str(next(node.addresses))
        self.files = PodFiles(node.api, pod, self.directory, self.address)
        self._uid, self._link, self._sent = about["uid"], f"pod{number}", None
        self._path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        before = {s["name"]: s for s in pod["status"].get("containerStatuses", [])}
        policy = self.spec["restartPolicy"]
        init_policy = "Never" if policy == "Never" else "OnFailure"
        self._init = [Runner(self, c, init_policy) for c in self.spec.get("initContainers", [])]
        self._main = [Runner(self, c, policy, before) for c in self.spec["containers"]]

    def run(self):
        if self.seen["status"]["phase"] in ("Succeeded", "Failed"):
            return
        hostname = self.spec.get("hostname") or self.seen["metadata"]["name"]
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_names(hostname)
        self.sandbox = Sandbox(self._link, self.address, hostname)
        refresh = 0.0
        while not self._leaving() and self._phase() not in ("Succeeded", "Failed"):
            try:
                if time.monotonic() >= refresh:
                    self._refresh()
                    refresh = time.monotonic() + REFRESH_SECONDS
                if self.seen:
                    self._step()
                    self._report()
            except (*FAILURES, KeyError) as problem:
                print(f"{self._path}: {problem}", flush=True)
            time.sleep(TICK)
        self._finish()

    def mounts(self, container):
        """Where a container sees what: (source, target, "ro" or "rw")."""
        mounts = [(self.directory / name, f"/etc/{name}", "rw") for name in NAME_FILES]
        for mount in container.get("volumeMounts", []):
            source = self.volumes[mount["name"]] / mount.get("subPath", "")
            mounts.append((source, mount["mountPath"], "ro" if mount.get("readOnly") else "rw"))
        return mounts

    def log(self, container):
        about = self.seen["metadata"]
        directory = self.node.directory / "log" / "pods" / f"{about['namespace']}_{about['name']}"
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{container}.log"

    def _refresh(self):
        """Follow changed Secrets, and notice a deletion that the watch missed."""
        found = self.node.api.find(self._path)
        self.seen = found if found and found["metadata"]["uid"] == self._uid else None
        if self.seen:
            self.volumes = self.files.volumes()

    def _leaving(self):
        return self.seen is None or "deletionTimestamp" in self.seen["metadata"]

    def _write_names(self, hostname):
        zone = f"{self.seen['metadata']['namespace']}.svc.cluster.local"
        own = [hostname, f"{hostname}.{self.spec.get('subdomain', 'pod')}.{zone}"]
        hosts = f"127.0.0.1 localhost\n{self.address} {' '.join(own)}\n"
        resolver = f"search {zone} svc.cluster.local cluster.local\noptions ndots:5\n"
        resolver += f"nameserver {self.node.about['gateway']}\n"
        for name, text in zip(NAME_FILES, (hosts, resolver), strict=True):
            (self.directory / name).write_text(text)

    def _step(self):
        for runner in self._init:
            if not runner.succeeded():
                runner.step()
                return
        for runner in self._main:
            runner.step()

    def _finish(self):
        """Stop what still runs; if the Pod was deleted, let it go from the API too."""
        about = self.seen["metadata"] if self.seen else {}
        grace = about.get("deletionGracePeriodSeconds", 0)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda runner: runner.stop_for_good(grace), self._init + self._main))
        self.sandbox.close()
        if self.seen:
            self._report()
        if self._leaving():
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
            self.node.api.delete(self._path, **options)
            shutil.rmtree(self.directory)

    def _phase(self):
        if any(r.final() and not r.succeeded() for r in self._init):
            return "Failed"
        if all(r.final() for r in self._main):
            return "Succeeded" if all(r.succeeded() for r in self._main) else "Failed"
        return "Running" if any(r.restarts or r.run for r in self._main) else "Pending"

    def _report(self):
        """Send the status if it differs from what was sent last."""
        ready = all(r.ready for r in self._main) and not self._leaving()
        facts = {"Initialized": all(r.succeeded() for r in self._init)}
        facts |= {"PodReadyToStartContainers": True, "ContainersReady": ready, "Ready": ready}
        known = {c["type"]: c for c in self.seen["status"].get("conditions", [])}
        for kind, fact in facts.items():
            if known.get(kind, {}).get("status") != str(fact):
                known[kind] = {"type": kind, "status": str(fact), "lastTransitionTime": timestamp()}
        status = {
            "phase": self._phase(),
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "hostIP": self.node.about["address"],
            "conditions": list(known.values()),
            "initContainerStatuses": [r.status() for r in self._init],
            "containerStatuses": [r.status() for r in self._main],
        }
        if status != self._sent:
            body = {"metadata": {"uid": self._uid}, "status": status}
            self.node.api.patch(f"{self._path}/status", body)
            self._sent = status


class Runner:
    """A container over its restarts."""

    def __init__(self, pod, spec, policy, before=None):
        self._pod, self._spec, self._policy = pod, spec, policy
        known = (before or {}).get(spec["name"])
        self.restarts = known["restartCount"] + 1 if known and "running" in known["state"] else 0
        self.run = self._image = self._code = None
        self.ready = self._started = False
        self._state, self._last = {"waiting": {"reason": "ContainerCreating"}}, {}
        self._next, self._backoff = 0.0, FIRST_BACKOFF

    def succeeded(self):
        return self._code == 0 and self._policy != "Always"

    def final(self):
        return self.succeeded() or (self._code is not None and self._policy == "Never")

    def step(self):
        if self.run and (code := self.run.exit_code()) is not None:
            self._ended(code)
        elif self.run:
            self._probe()
        elif not self.final() and time.monotonic() >= self._next:
            self._start()

    def stop(self, grace):
        if self.run:
            self._ended(self.run.stop(grace))

    def stop_for_good(self, grace):
        self._policy = "Never"
        self.stop(grace)

    def status(self):
        return {
            "name": self._spec["name"],
            "image": self._spec["image"],
            "imageID": self._image.identity if self._image else "",
            "containerID": f"process://{self._spec['name']}",
            "ready": self.ready,
            "started": self._started,
            "restartCount": self.restarts,
            "state": self._state,
            "lastState": self._last,
        }

    def _start(self):
        pod, spec = self._pod, self._spec
        self._image = pod.node.image(spec["image"])
        if not self._image:
            self._state = {"waiting": {"reason": "ErrImageNeverPull", "message": spec["image"]}}
            self._next = time.monotonic() + LAST_BACKOFF
            return
        environment = pod.files.environment(spec, self._image.environment)
        self.run = Container(
            sandbox=pod.sandbox,
            group=f"{pod.group}/{spec['name']}",
            image=self._image.root,
            directory=pod.directory / spec["name"],
            mounts=pod.mounts(spec),
            user=_user(pod.spec.get("securityContext", {}) | spec.get("securityContext", {})),
            command=[expand(word, environment) for word in self._image.command(spec)],
            environment=environment,
            log=pod.log(spec["name"]),
        )
        self._state = {"running": {"startedAt": timestamp()}}
        kinds = ("startupProbe", "livenessProbe", "readinessProbe")
        self._probes = {kind: Probe(spec[kind], spec) for kind in kinds if kind in spec}
        self._probe()

    def _probe(self):
        def check(kind):
            """True or False when the probe is decided, None before."""
            probe = self._probes.get(kind)
            return probe.check(self.run, self._pod.address) if probe else True

        self._started = self._started or bool(check("startupProbe"))
        self.ready = self._started and bool(check("readinessProbe"))
        failed = check("livenessProbe") if self._started else check("startupProbe")
        if failed is False:
            self.stop(self._pod.spec.get("terminationGracePeriodSeconds", 30))

    def _ended(self, code):
        reason = "Completed" if code == 0 else "Error"
        ended = {"exitCode": code, "reason": reason, "finishedAt": timestamp()}
        ended["startedAt"] = self._state["running"]["startedAt"]
        self.run, self._code, self.ready, self._started = None, code, False, False
        self._last, self._state = {"terminated": ended}, {"terminated": ended}
        if not self.final():
            self.restarts += 1
            self._state = {"waiting": {"reason": "CrashLoopBackOff"}}
            self._next = time.monotonic() + self._backoff
            self._backoff = min(2 * self._backoff, LAST_BACKOFF)


def _user(context):
    """The options of chroot(1) for a security context."""
    uid, gid = context.get("runAsUser", 0), context.get("runAsGroup", 0)
    groups = [*context.get("supplementalGroups", []), context.get("fsGroup", gid)]
    return f"--userspec={uid}:{gid}", f"--groups={','.join(map(str, groups))}"
