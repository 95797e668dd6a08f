"""The Python stacks of a thread, sampled from within its process: what a notebook's cell does.

No rights are needed, unlike for samplers from outside. A sample waits for the interpreter's lock,
so time in libraries that hold it is seen when they give it back, and belongs to their caller.
What of the time between two samples the thread ran, or was ready to, its CPU clock and the kernel's
schedstat say, where the system has them: the rest is waits, as in py-spy's samples.
Written as speedscope's JSON: https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType

# 200 a second: each takes some 10 µs for a stack of twenty frames, a fifth of a per cent.
PERIOD_S = 0.005
_MOST_DEPTH = 200
# Of distinct stacks: a program that has more recurses, and deeper ones tell nothing new.
_MOST_STACKS = 100_000

Stack = tuple[tuple[str, str, int], ...]  # function, file, line; the outermost first


class PythonStacks:
    """Samples the thread that makes it, while the block runs; `above` is left out of stacks.

    `weights` is ns by stack, `ran` how much of that the thread was on a CPU, or ready for one; None
    where no clock of it is known.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._thread_id = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sightline-stacks")
        self.weights: dict[Stack, int] = {}
        self._read_clock = find_thread_clock(self._thread_id, threading.get_native_id())
        self.ran: dict[Stack, int] | None = None if self._read_clock is None else {}
        self._above = 0

    def __enter__(self) -> PythonStacks:
        frame: FrameType | None = sys._getframe()
        while frame is not None:  # who called us is not part of what is measured
            self._above, frame = self._above + 1, frame.f_back
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        read_clock = self._read_clock or _read_nothing
        last, last_ran = time.perf_counter_ns(), read_clock()
        while not self._ended.wait(self._period_s):
            stack = _read_stack(sys._current_frames().get(self._thread_id), self._above - 1)
            now, ran = time.perf_counter_ns(), read_clock()
            if self._ended.is_set():  # it waits for us
                return
            if stack and (stack in self.weights or len(self.weights) < _MOST_STACKS):
                self.weights[stack] = self.weights.get(stack, 0) + now - last
                if self.ran is not None and ran > last_ran:
                    self.ran[stack] = self.ran.get(stack, 0) + ran - last_ran
            last, last_ran = now, ran

    def write(self, path: Path, without: tuple[str, ...] = (), name: str | None = None) -> None:
        """Write them as a sampled profile in ns, under a name.

        What leads into the program through packages of the names in `without` is left out.
        """
        _write_profile(path, self.weights, without, name)

    def write_ran(self, path: Path, without: tuple[str, ...] = ()) -> None:
        """The same of what the thread ran, if that is known and not nothing."""
        if self.ran:
            _write_profile(path, self.ran, without, None)


def find_thread_clock(thread_id: int, native_id: int) -> Callable[[], int] | None:
    """What reads for how long a thread has run or been ready to, ns; None where nobody counts it.

    Not on Windows and macOS. Without schedstat (Linux with CONFIG_SCHED_INFO) it is what it ran.
    """
    schedstat = Path(f"/proc/self/task/{native_id}/schedstat")
    try:
        clock = time.pthread_getcpuclockid(thread_id)
        time.clock_gettime_ns(clock)
    except (AttributeError, OSError):
        return None
    try:
        _read_queued(schedstat)
    except (OSError, ValueError, IndexError):
        return lambda: time.clock_gettime_ns(clock)
    return lambda: time.clock_gettime_ns(clock) + _read_queued(schedstat)


def _read_queued(schedstat: Path) -> int:
    """For how long a thread was ready and had no CPU, ns: the second field of proc(5)'s file."""
    return int(schedstat.read_bytes().split()[1])


def _read_nothing() -> int:
    return 0


def _write_profile(
    path: Path, weights: dict[Stack, int], without: tuple[str, ...], name: str | None
) -> None:
    frames: dict[tuple[str, str, int], int] = {}
    stacks: dict[Stack, int] = {}
    for stack, weight in weights.items():
        inner = _leave_out(stack, without)
        stacks[inner] = stacks.get(inner, 0) + weight
    stacks.pop((), None)
    samples = [[frames.setdefault(frame, len(frames)) for frame in stack] for stack in stacks]
    values = list(stacks.values())
    profile = {
        "type": "sampled",
        "name": "cell",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(values),
        "samples": samples,
        "weights": values,
    }
    shared = [{"name": name, "file": file, "line": line} for name, file, line in frames]
    data = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "sightline",
        **({} if name is None else {"name": name}),
        "shared": {"frames": shared},
        "profiles": [profile],
    }
    path.write_text(json.dumps(data), encoding="utf-8")


def _leave_out(stack: Stack, packages: tuple[str, ...]) -> Stack:
    """The stack without its outermost frames, as far as they lie in files of such packages."""
    parts = set(packages)
    return tuple(itertools.dropwhile(lambda frame: parts & set(Path(frame[1]).parts), stack))


def _read_stack(frame: FrameType | None, above: int) -> Stack:
    """The frames of a thread without its `above` outermost ones."""
    found = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        found.append((name, code.co_filename, frame.f_lineno or code.co_firstlineno))
        frame = frame.f_back
    inner = found[: max(len(found) - above, 0)][:_MOST_DEPTH]
    return tuple(reversed(inner))
