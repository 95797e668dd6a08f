"""What each stage of a command took, for `--timings`: one table that sums to the whole.

A stage that begins inside another one takes its time off that one, so each moment of the thread
that keeps the record belongs to one stage. What other threads do meanwhile counts as processor
time of the stage that waits for them.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

START = "start Python, load modules"
REST = "all else"


class Moment(NamedTuple):
    """Where a process stands: ns of wall time and of processor time, the most bytes it held."""

    wall_ns: int
    cpu_ns: int
    peak_bytes: int


@dataclass
class Stages:
    """What was spent in each stage up to now, in the order in which they first began."""

    read: Callable[[], Moment]
    began: Moment
    took: dict[str, Moment] = field(default_factory=dict)
    _open: list[str] = field(default_factory=lambda: [START])
    _thread: int = field(default_factory=threading.get_ident)

    def __post_init__(self) -> None:
        self._since = self.began

    @contextlib.contextmanager
    def enter(self, name: str) -> Iterator[None]:
        """The time until the end of the block is that stage's; other threads change nothing."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._close()
        self._open.append(name)
        try:
            yield
        finally:
            self._close()
            self._open.pop()

    def finish(self) -> dict[str, Moment]:
        """What each stage took; their wall and processor times sum to those of the whole."""
        self._close()
        return dict(self.took)

    def _close(self) -> None:
        now, name = self.read(), self._open[-1]
        wall, cpu, _ = self.took.get(name, Moment(0, 0, 0))
        self.took[name] = Moment(
            wall + now.wall_ns - self._since.wall_ns,
            cpu + now.cpu_ns - self._since.cpu_ns,
            now.peak_bytes,
        )
        self._since = now
        self._open[0] = REST  # the start is over


_stages: Stages | None = None


def keep_stages() -> Stages:
    """Begin to keep what the stages of this process take, from its start on."""
    global _stages
    _stages = Stages(read_moment, Moment(time.perf_counter_ns() - _measure_age_ns(), 0, 0))
    return _stages


def stage(name: str) -> contextlib.AbstractContextManager[None]:
    """The block is a stage of the command; nothing is done where none are kept."""
    return contextlib.nullcontext() if _stages is None else _stages.enter(name)


def read_moment() -> Moment:
    """This process now."""
    return Moment(time.perf_counter_ns(), time.process_time_ns(), _measure_peak_bytes())


def _measure_age_ns() -> int:
    """How long this process has run, to a hundredth of a second; 0 where that is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
            began = int(file.read().rpartition(b")")[2].split()[19])  # proc(5): starttime
        ticks = os.sysconf("SC_CLK_TCK")
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0
    return max(0, now - began * 1_000_000_000 // ticks)


def _measure_peak_bytes() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    import sys

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def write_table(took: dict[str, Moment]) -> str:
    """The stages as text: seconds, their share, processor time, cores in use, peak memory."""
    whole = Moment(
        sum(m.wall_ns for m in took.values()),
        sum(m.cpu_ns for m in took.values()),
        max((m.peak_bytes for m in took.values()), default=0),
    )
    rows = [("stage", "s", "%", "CPU s", "cores", "peak MB")]
    rest = {REST: took[REST]} if REST in took else {}
    named = {name: of for name, of in took.items() if name != REST}
    for name, of in (*named.items(), *rest.items(), ("the whole", whole)):
        rows.append(
            (
                name,
                f"{of.wall_ns / 1e9:.2f}",
                f"{100 * of.wall_ns / max(whole.wall_ns, 1):.1f}",
                f"{of.cpu_ns / 1e9:.2f}",
                f"{of.cpu_ns / max(of.wall_ns, 1):.1f}",
                f"{of.peak_bytes / 1e6:,.0f}",
            )
        )
    width = max(len(row[0]) for row in rows)
    ends = [max(len(row[i]) for row in rows) for i in range(1, 6)]
    return "".join(
        f"{row[0]:<{width}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(row[1:], ends, strict=True))
        + "\n"
        for row in rows
    )  # fmt: skip
