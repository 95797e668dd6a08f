"""Whose a process is in Kubernetes: namespace, pod and container, without asking any server.

The process's cgroup names its container (`.../cri-containerd-ID.scope`) and its pod's uid; the
kubelet names the logs of containers after them: /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
and /var/log/pods/NAMESPACE_POD_UID (Kubernetes, Logging Architecture; pkg/kubelet/kuberuntime,
legacy.go). A pod that watches needs hostPID and /var/log of the host, and no right to the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_CONTAINER = re.compile(r"(?:^|[-/:])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_LOG = re.compile(
    r"(?P<pod>[^_]+)_(?P<namespace>[^_]+)_(?P<container>.+)-(?P<id>[0-9a-f]{64})\.log"
)
_FOLDER = re.compile(r"(?P<namespace>[^_]+)_(?P<pod>[^_]+)_(?P<uid>[0-9a-f-]{36})")


class Pod(NamedTuple):
    """Labels as dcgm-exporter has them; what is not known is empty."""

    namespace: str
    pod: str
    container: str = ""

    def label(self) -> dict[str, str]:
        """The labels that are known."""
        return {name: value for name, value in self._asdict().items() if value}


def read_cgroup(text: str) -> tuple[str | None, str | None]:
    """The pod's uid and the container's id, of the text of /proc/PID/cgroup."""
    pod = container = None
    for line in text.splitlines():
        path = line.rpartition(":")[2]
        pod = pod or next(iter(_POD.findall(path)), None)
        container = container or next(reversed(_CONTAINER.findall(path)), None)
    return None if pod is None else pod.replace("_", "-"), container


class Pods:
    """Looks pods up, and remembers them: a container keeps its name for as long as it lives."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._known: dict[str, Pod] = {}

    def find(self, pid: int) -> Pod | None:
        """The pod of a process; None for one that is in none, or gone."""
        try:
            text = (self._root / "proc" / str(pid) / "cgroup").read_text(errors="replace")
        except OSError:
            return None
        uid, container = read_cgroup(text)
        if uid is None:
            return None
        key = container or uid
        if key not in self._known:
            found = self._look_up(uid, container)
            if found is None:
                return Pod("", uid)  # the kubelet has not written its log yet: asked again
            self._known[key] = found
        return self._known[key]

    def find_all(self, pids: Iterable[int]) -> Pod | None:
        """The pod that all of these are in; None where they are in several, or any in none."""
        found = {self.find(pid) for pid in pids}
        return found.pop() if len(found) == 1 else None

    def _look_up(self, uid: str, container: str | None) -> Pod | None:
        log = self._root / "var/log"
        if container is not None:
            for name in _list(log / "containers"):
                found = _LOG.fullmatch(name)
                if found is not None and found["id"] == container:
                    return Pod(found["namespace"], found["pod"], found["container"])
        for name in _list(log / "pods"):
            found = _FOLDER.fullmatch(name)
            if found is not None and found["uid"] == uid:
                return Pod(found["namespace"], found["pod"])
        return None


def _list(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
