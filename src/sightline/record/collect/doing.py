"""What a recording tells a person while something takes long: what, how much, how long still."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from sightline.core.model.run_folder import STOPPING
from sightline.core.units import format_bytes, format_ns

Say = Callable[[str], None]
# Done and in all, bytes; None in all where nobody knows.
Measure = Callable[[], tuple[int, int | None]]

QUIET_S = 1.0  # work under a second shows nothing, as while recordings are read (doors/cli)
EVERY_S = 5.0  # lines that stay: each is a new one (ours)
_LOOK_S = 0.25


class Doing:
    """Tells after a second, and every five, what goes on within the block."""

    def __init__(self, say: Say, what: str, measure: Measure | None = None) -> None:
        self._say, self._what, self._measure = say, what, measure
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sightline-doing", daemon=True)

    def __enter__(self) -> Doing:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        _block_signals()
        began, wait = time.monotonic(), QUIET_S
        while not self._ended.wait(wait):
            wait = EVERY_S
            self._say(tell_state(self._what, time.monotonic() - began, self._measure))


def tell_state(what: str, took_s: float, measure: Measure | None = None) -> str:
    """As "compressing traces: 120 MB of 400 MB, 4 s so far, 9 s left"."""
    text = what
    left = ""
    if measure is not None:
        done, whole = measure()
        text += f": {format_bytes(done)}"
        if whole is not None:
            text += f" of {format_bytes(whole)}"
            if done:
                left = f", {took_s * max(whole - done, 0) / done:.0f} s left"
    return f"{text}, {took_s:.0f} s so far{left}"


class EndingWatch:
    """Watches profilers in the recorded processes that stop and write, which may take long.

    `told_ns` is how long they have done so at the end of the program: no time of its own.
    """

    def __init__(self, folder: Path, mark: str, say: Say) -> None:
        self._folder, self._mark, self._say = folder, mark, say
        self._since: dict[str, float] = {}
        self._next: dict[str, float] = {}
        self._last_ns = 0
        self._last_seen = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sightline-ending", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """End it; how long profilers were writing when the program ended, ns."""
        self._ended.set()
        self._thread.join()
        recent = time.monotonic() - self._last_seen <= 4 * _LOOK_S
        return self._last_ns if recent else 0

    def _run(self) -> None:
        _block_signals()
        while not self._ended.wait(_LOOK_S):
            self._look(time.monotonic())

    def _look(self, now: float) -> None:
        there = {path.name for path in self._folder.glob(f"{STOPPING}*-{self._mark}-*")}
        for name in there:
            since = self._since.setdefault(name, now)
            self._last_ns, self._last_seen = int((now - since) * 1e9), now
            if now >= self._next.setdefault(name, since + QUIET_S):
                self._next[name] = now + EVERY_S
                self._say(self._tell(name, now - since))
        for name in set(self._since) - there:
            del self._since[name], self._next[name]

    def _tell(self, name: str, took_s: float) -> str:
        """Of which process, and how much is written; what it will be, nobody knows before."""
        pid = name.removeprefix(STOPPING).partition(".")[0].rpartition("-")[2]
        size = 0
        for path in self._folder.glob(f".part-{pid}-*"):
            with contextlib.suppress(OSError):
                size += path.stat().st_size
        if not size:
            return tell_state(f"PyTorch's profiler stops (process {pid})", took_s)
        what = f"PyTorch's profiler writes its trace (process {pid})"
        return tell_state(what, took_s, lambda: (size, None))


def say_after(wall_ns: int, writing_ns: int) -> str:
    """How long a program took, and its profiler at its end, as "3.100 s, and 36.50 s more to …"."""
    if writing_ns < QUIET_S * 1e9:
        return format_ns(wall_ns)
    return (
        f"{format_ns(wall_ns - writing_ns)}, and its profiler stopped and wrote for "
        f"{format_ns(writing_ns)} more"
    )


def _block_signals() -> None:
    """In a thread of ours: signals are for the one that waits for them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
