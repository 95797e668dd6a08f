"""Runs a program as if sightline were not there: its output, signals and exit code are its own.

The program is started by a gate: a fork that waits until everything that watches it is ready.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from sightline.core.text import make_printable
from sightline.record.collect.witness import APART_S, Witness

GRACE_S = 10.0  # what torchrun gives its workers is 30, but a job's own limit is often nearer
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_SI_KERNEL = 0x80  # sigaction(2): the terminal sent it, to the whole group, the program included
_FORWARDED = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
# While we are not waiting, the kernel may hand the news of an end to another thread, which drops
# it: so it is looked again now and then.
_LOOK_S = 0.5
NOT_FOUND, NOT_EXECUTABLE, TIMED_OUT = 127, 126, 124  # as shells and timeout(1) have it


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int  # as a shell shows it: 128 + n for signal n
    signal: int | None
    timed_out: bool
    wall_ns: int
    started: bool = True  # False: there is no such program, or it is none


class Child:
    """A program behind its gate."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
        self.watchers: set[int] = set()  # processes of ours, which no time-out ends
        # What became sightline may have started others before: a shell's server, a test's browser.
        self._others = list_children(os.getpid())
        gate, self._opener = os.pipe()
        self._failed, self._failure = os.pipe()  # closed by the program's start, as all of ours
        with contextlib.suppress(OSError, AttributeError):
            # Orphans of the program come to us, so that a time-out ends them as well.
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.pid = os.fork()
        if self.pid == 0:
            self._become(command, environment, gate)
        os.close(gate)
        os.close(self._failure)
        self._held: list[tuple[int, int]] = []  # signals, and when they came (monotonic ns)
        self._witness: Witness | None = None
        with contextlib.suppress(OSError):  # a machine without room for it: all is passed on
            self._witness = Witness(_FORWARDED)
            self.watchers.add(self._witness.pid)
        self.began_ns = time.monotonic_ns()

    def _become(self, command: Sequence[str], environment: Mapping[str, str], gate: int) -> None:
        """In the fork: wait at the gate, then be the program. Never returns."""
        code = NOT_FOUND
        try:
            os.close(self._opener)
            if not os.read(gate, 1):
                os._exit(1)  # sightline died
            os.close(gate)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            # Python ignores these two for itself; a program expects them as a shell gives them.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # nohup stays nohup
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execvpe(command[0], list(command), dict(environment))  # noqa: S606  # no shell
        except OSError as error:
            code = NOT_EXECUTABLE if isinstance(error, PermissionError) else NOT_FOUND
            os.write(self._failure, b"!")
            name = make_printable(command[0])  # past the edge to the terminal
            text = f"sightline: cannot run {name}: {(error.strerror or '').lower()}\n"
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the exit code is not whether one reads
            with contextlib.suppress(OSError):
                os.write(2, text.encode("utf-8", "replace"))
        finally:
            os._exit(code)

    def open_gate(self) -> None:
        """Let the program begin."""
        self.began_ns = time.monotonic_ns()
        os.write(self._opener, b"!")
        os.close(self._opener)

    def wait(
        self,
        timeout_s: float | None,
        on_timeout: Callable[[], None],
        on_signal: Mapping[int, Callable[[], None]] = MappingProxyType({}),
    ) -> Ended:
        """Pass signals on until the program ends; after `timeout_s`, end it and all it started.

        A signal that the program has got by itself is not passed on, nor are those of `on_signal`,
        which are ours.
        """
        limit = None if timeout_s is None else self.began_ns + int(timeout_s * 1e9)
        killing, timed_out, ended_one = False, False, True
        try:
            while True:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid == self.pid:
                    break
                if ended_one:
                    self._reap_orphans()
                now = time.monotonic_ns()
                if limit is not None and now >= limit:
                    if not timed_out:
                        on_timeout()
                    self._end(signal.SIGKILL if killing else signal.SIGTERM)
                    timed_out, killing, limit = True, True, now + int(GRACE_S * 1e9)
                left = _LOOK_S if limit is None else max((limit - now) / 1e9, 0.0)
                if self._held:
                    left = min(left, APART_S / 4)
                told = signal.sigtimedwait({*_FORWARDED, signal.SIGCHLD}, min(left, _LOOK_S))
                ended_one = told is not None and told.si_signo == signal.SIGCHLD
                if told is not None and (own := on_signal.get(told.si_signo)) is not None:
                    own()
                elif told is not None and told.si_signo != signal.SIGCHLD:
                    self._hold(told.si_signo, told.si_code)
                self._pass_on()
            wall = time.monotonic_ns() - self.began_ns
            if timed_out:
                self._end(signal.SIGKILL)
        finally:
            if self._witness is not None:
                self._witness.end()
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = 128 + ended_by if ended_by is not None else os.WEXITSTATUS(status)
        started = not os.read(self._failed, 1)
        os.close(self._failed)
        return Ended(TIMED_OUT if timed_out else code, ended_by, timed_out, wall, started)

    def _reap_orphans(self) -> None:
        """Let go of the program's orphans that have ended: they came to us, who must ask for them.

        A program that starts thousands would run out of process numbers otherwise.
        """
        for pid in list_zombies(os.getpid()):
            if pid != self.pid and pid not in self.watchers:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _hold(self, number: int, code: int) -> None:
        """Keep a signal until it is known who else got it."""
        if number in (signal.SIGINT, signal.SIGQUIT) and code == _SI_KERNEL:
            return  # the terminal has told the program already
        self._held.append((number, time.monotonic_ns()))

    def _pass_on(self) -> None:
        """Tell the program of the signals that were sent to us alone."""
        known = self._held
        due = time.monotonic_ns() - int(APART_S * 1e9)
        self._held = [one for one in known if one[1] > due]
        for number, at in known:
            if at > due:
                continue
            with contextlib.suppress(ProcessLookupError):
                # A program that left our process group gets nothing that is sent to that.
                beside = os.getpgid(self.pid) == os.getpgrp()
                if not (beside and self._witness is not None and self._witness.got(number, at)):
                    os.kill(self.pid, number)

    def _end(self, number: int) -> None:
        """Signal the program and everything below it."""
        for pid in set(list_descendants(os.getpid(), self._others)) - self.watchers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def list_zombies(parent: int) -> list[int]:
    """Children of a process that have ended and that it has not asked for."""
    return [pid for pid, state, above in _list_processes() if state == "Z" and above == parent]


def list_children(pid: int) -> frozenset[int]:
    """The processes that one has started, or was given."""
    return frozenset(child for child, _, above in _list_processes() if above == pid)


def list_descendants(pid: int, but: Collection[int] = ()) -> list[int]:
    """All processes below one, as /proc has them now, without some of its children."""
    below: dict[int, list[int]] = {}
    for child, _, above in _list_processes():
        below.setdefault(above, []).append(child)
    found = [child for child in below.get(pid, ()) if child not in but]
    open_ = [*found]
    while open_:
        children = below.get(open_.pop(), [])
        found += children
        open_ += children
    return found


def _list_processes() -> Iterator[tuple[int, str, int]]:
    """Every process as /proc has it now: its number, its state, and its parent's number."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name in brackets may hold anything, so fields are counted after it.
                state, above = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            yield int(entry.name), state, int(above)
