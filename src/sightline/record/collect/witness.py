"""Tells a signal that was sent to us alone from one that the recorded program got as well.

A stop by systemd, timeout(1), a batch system or a terminal goes to a whole process group, or to
each process of a control group. No field of a signal says so (sigaction(2): `si_code` and `si_pid`
are those of any kill(2)). So a process that does nothing else lies beside the program, in the same
groups: what it has got too, the program has got.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import time
from collections.abc import Collection
from pathlib import Path

# How far apart two processes get a signal that was sent to both. Of one kill(2) to a group that is
# microseconds; systemd and `timeout` signal one after the other. A stop can wait that long.
APART_S = 0.1
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15  # prctl(2)
_SEEN = struct.Struct("=iq")  # which signal, when by the monotonic clock in ns


class Witness:
    """A process of ours that gets the signals of our process group and control group, and says so.

    The caller has blocked `signals` before. Raises OSError where no process can be started.
    """

    def __init__(self, signals: Collection[int]) -> None:
        self._seen: list[tuple[int, int]] = []
        self._news, say = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _report_signals(say, signals, parent)
        os.close(say)
        os.set_blocking(self._news, False)

    def got(self, number: int, at_ns: int) -> bool:
        """Whether it got a signal about when we did (monotonic ns)."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._news, _SEEN.size * 64):
                self._seen += _SEEN.iter_unpack(data)
        near = int(APART_S * 1e9)
        self._seen = [one for one in self._seen if one[1] > at_ns - 20 * near]
        if any(seen == number and abs(when - at_ns) <= near for seen, when in self._seen):
            return True
        return number in _list_pending(self.pid)  # it has not had the CPU since

    def end(self) -> None:
        """End the process."""
        os.close(self._news)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _report_signals(say: int, signals: Collection[int], parent: int) -> None:
    """In the fork: write down each signal. Never returns; ends with its parent."""
    try:
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(_PR_SET_NAME, b"sightline-sig", 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)
        # It keeps nothing open that somebody waits for the end of.
        say = os.dup2(say, 3)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        while True:
            number = signal.sigwait(signals)
            os.write(say, _SEEN.pack(number, time.monotonic_ns()))
    finally:
        os._exit(0)


def _list_pending(pid: int) -> set[int]:
    """The signals that wait for a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return set()
    bits = 0
    for line in status.splitlines():
        if line.startswith(("SigPnd:", "ShdPnd:")):
            bits |= int(line.split()[1], 16)
    return {number for number in range(1, 65) if bits >> (number - 1) & 1}
