"""What main threads of recorded processes sleep for, seen from outside, ten times a second.

/proc/PID/task/TID/syscall names the call that a sleeping thread is in (proc(5)). It may be read
where a debugger could attach, which a parent always could unless the child is another user's.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from pathlib import Path

from sightline.core.model import usage_metrics as m
from sightline.core.model.event_file import SUFFIX
from sightline.record.inline.recorder import Recorder

# Linux 6.18 counts a sleep that is looked at as waiting for a CPU, for some ms: a hundred looks a
# second moved 15 % of a loop's time there (lab/lock-waiting), ten move 1 or 2 %.
PERIOD_S = 0.1
_LOOK_EVERY = 5  # rounds between two looks for processes that began
# Calls in which threads sleep, by number: arch/x86/entry/syscalls/syscall_64.tbl, and for all other
# 64-bit machines include/uapi/asm-generic/unistd.h.
_BY_DESCRIPTOR = {
    "x86_64": (0, 1, 17, 18, 19, 20, 40, 74, 75, 162, 277, 285, 295, 296),
    "aarch64": (63, 64, 65, 66, 67, 68, 69, 70, 71, 81, 82, 83, 84, 47),
}
_NAMED = {
    "x86_64": {
        202: m.LOCK, 449: m.LOCK, 73: m.LOCK, 35: m.TIMER, 230: m.TIMER, 7: m.POLL, 23: m.POLL,
        232: m.POLL, 270: m.POLL, 271: m.POLL, 281: m.POLL, 441: m.POLL, 61: m.PROCESS,
        247: m.PROCESS, 43: m.NETWORK, 44: m.NETWORK, 45: m.NETWORK, 42: m.NETWORK,
        46: m.NETWORK, 47: m.NETWORK, 288: m.NETWORK, 299: m.NETWORK, 307: m.NETWORK,
        2: m.FILE, 257: m.FILE, 82: m.FILE, 87: m.FILE, 3: m.FILE, 26: m.FILE, 76: m.FILE,
    },
    "aarch64": {
        98: m.LOCK, 449: m.LOCK, 32: m.LOCK, 101: m.TIMER, 115: m.TIMER, 73: m.POLL, 72: m.POLL,
        22: m.POLL, 441: m.POLL, 260: m.PROCESS, 95: m.PROCESS, 202: m.NETWORK, 203: m.NETWORK,
        206: m.NETWORK, 207: m.NETWORK, 211: m.NETWORK, 212: m.NETWORK, 242: m.NETWORK,
        56: m.FILE, 38: m.FILE, 35: m.FILE, 57: m.FILE, 227: m.FILE, 45: m.FILE,
    },
}  # fmt: skip
_MACHINE = platform.machine()


class SleepSampler:
    """A thread of sightline's own that looks at every process which marks steps."""

    def __init__(self, folder: Path, mark: str) -> None:
        self._folder, self._mark = folder, mark
        self._files: dict[int, Recorder] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sightline-sleeps", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and close the files."""
        self._ended.set()
        self._thread.join()
        for file in self._files.values():
            file.close()

    def _run(self) -> None:
        known: dict[int, str] = {}
        rounds, before = 0, time.monotonic_ns()
        while not self._ended.wait(PERIOD_S):
            now = time.monotonic_ns()
            for pid, stem in known.items():
                cause = find_sleep(pid, pid)
                if cause is not None and (file := self._open(pid, stem)) is not None:
                    file.sample(f"{m.ASLEEP}{cause} [ns]", now, now - before)
            if rounds % _LOOK_EVERY == 0:
                known = _find_processes(self._folder, self._mark)
            rounds += 1
            before = now

    def _open(self, pid: int, stem: str) -> Recorder | None:
        if pid not in self._files:
            try:
                self._files[pid] = Recorder(self._folder / f"{stem}.sleeps{SUFFIX}")
            except OSError:  # a full disk, or a folder that is gone: the program goes on
                return None
        return self._files[pid]


def _find_processes(folder: Path, mark: str) -> dict[int, str]:
    """The processes of this host that write event files: number, and how the files' names begin."""
    found = {}
    for path in folder.glob(f"*-{mark}-*{SUFFIX}"):
        stem = path.name.removesuffix(SUFFIX)
        pid = stem.rsplit("-", 1)[-1]
        if pid.isdigit():
            found[int(pid)] = stem
    return found


def find_sleep(pid: int, tid: int) -> str | None:
    """What a thread sleeps for, one of usage_metrics.CAUSES; None while it runs or is not there."""
    try:
        stat = Path(f"/proc/{pid}/task/{tid}/stat").read_bytes()
        if stat.rsplit(b")", 1)[1].split()[0] not in (b"S", b"D"):
            return None
        words = Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()
    except PermissionError:
        return m.UNKNOWN
    except (OSError, IndexError, ValueError):
        return None
    if not words or words[0] == "running":
        return None
    number = int(words[0])
    if number in _BY_DESCRIPTOR.get(_MACHINE, ()) and len(words) > 1:
        return _name_descriptor(pid, int(words[1], 16))
    return _NAMED.get(_MACHINE, {}).get(number, m.UNKNOWN)


def _name_descriptor(pid: int, number: int) -> str:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115  # "pipe:[7]" is not a path
    except OSError:
        return m.UNKNOWN
    if target.startswith("socket:"):
        return m.NETWORK
    if target.startswith("pipe:"):
        return m.PROCESS
    return m.FILE if target.startswith("/") else m.UNKNOWN
