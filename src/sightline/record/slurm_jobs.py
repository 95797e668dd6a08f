"""Which job of Slurm a process belongs to, by the cgroup that slurmd put it into.

https://slurm.schedmd.com/cgroup_v2.html: system.slice/slurmstepd.scope/job_ID, before it the node's
name where several slurmd run on one (--enable-multiple-slurmd); version 1: slurm/uid_U/job_ID, or
slurm_NODE/. From Slurm 26.05 on the folder is called by the job's SLUID (s5K1KKYAYG5D00), unless
cgroup.conf says CgroupJobIdPaths=yes: then slurmd is asked once which job that is (scontrol
pidinfo), and without it the process' environment, which its user may have changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from sightline.record.probe.processes import read_environment

_JOB = re.compile(r"/job_(\d{1,10})(?:/|$)")
# From the root on: below their own folder users may call folders as they like.
_SLURM = re.compile(r"/(?:system\.slice/)?(?:[^/]+_)?slurmstepd\.scope/|/slurm(?:_[^/]+)?/uid_\d+/")
# 's' and 13 digits of base 32 (Crockford's, which has no I, L, O, U).
_SLUID = re.compile(r"slurmstepd\.scope/(s[0-9A-HJKMNP-TV-Z]{13})(?:/|$)")
_SAID = re.compile(r"job\s*id\s+(\d{1,10})", re.IGNORECASE)
_LONGEST_S = 5.0
_MOST = 10_000  # SLUIDs that are remembered

Ask = Callable[[int], str | None]


def read_cgroup(text: str) -> tuple[str | None, str | None]:
    """The job's number or its SLUID, of the text of /proc/PID/cgroup; None of the other."""
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if not _SLURM.match(path):
            continue
        if (found := _JOB.search(path)) is not None:
            return found[1], None
        if (found := _SLUID.search(path)) is not None:
            return None, found[1]
    return None, None


def ask_slurmd(pid: int) -> str | None:
    """The job of a process of this node, as slurmd has it; None where it cannot be asked."""
    program = shutil.which("scontrol")
    if program is None:
        return None
    try:
        said = subprocess.run(  # noqa: S603  # a program of the PATH
            [program, "pidinfo", str(pid)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_LONGEST_S, check=False,
        ).stdout.decode(errors="replace")  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _SAID.search(said)
    return None if found is None else found[1]


class SlurmJobs:
    """Looks jobs up, and remembers those of SLUIDs: a SLUID is of one job for ever."""

    def __init__(self, root: Path = Path("/"), ask: Ask = ask_slurmd) -> None:
        self._root, self._ask = root, ask
        self._known: dict[str, str] = {}

    def find(self, pid: int) -> str | None:
        """The number of a process' job, or its SLUID; None of one that is in none, or gone."""
        try:
            text = (self._root / "proc" / str(pid) / "cgroup").read_text(errors="replace")
        except OSError:
            return None
        job, sluid = read_cgroup(text)
        if sluid is None:
            return job
        if sluid not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[sluid] = self._ask(pid) or self._read_own(pid) or sluid
        return self._known[sluid]

    def find_all(self, pids: Iterable[int]) -> str | None:
        """The job that all of these are of; None where they are of several, or any of none."""
        found = {self.find(pid) for pid in pids}
        return found.pop() if len(found) == 1 else None

    def _read_own(self, pid: int) -> str | None:
        said = read_environment(pid, self._root).get("SLURM_JOB_ID", "")
        return said if said.isascii() and said.isdecimal() and len(said) <= 10 else None
