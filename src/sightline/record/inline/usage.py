"""What the operating system counts for the thread that marks the steps, read where steps end.

CLOCK_THREAD_CPUTIME_ID and CLOCK_PROCESS_CPUTIME_ID are exact to the ns; how long the thread was
runnable and had no CPU is the second number of /proc/PID/task/TID/schedstat (Linux,
Documentation/scheduler/sched-stats.rst); getrusage(2) has the rest.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
import time

from sightline.core.model import usage_metrics as m
from sightline.record.inline.recorder import Recorder, now

# A reading takes 7 µs (benchmarks/inline.py), twice that with cold caches: 0.3 % of 5 ms at most.
EVERY_NS = 5_000_000
# With the unit behind the name, as Recorder.sample wants it.
_NAMES = {name: f"{name} [{unit}]" if unit else name for name, unit in m.UNITS.items()}


class Usage:
    """The counters of one thread; they are read in that thread alone."""

    __slots__ = ("_has_threads", "_next", "_schedstat", "_thread")

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._next = 0
        self._schedstat: int | None = None
        self._has_threads = False
        with contextlib.suppress(OSError):  # another kernel than Linux, or one without schedstat
            self._schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def read_if_due(self, file: Recorder, at_ns: int) -> None:
        """Write the counters at the end of a step, if the last time was long enough ago."""
        if at_ns < self._next or threading.get_ident() != self._thread:
            return
        self._next = at_ns + EVERY_NS
        at_ns = now()  # beside the counters: the thread may have been interrupted since
        on_cpu, queued = time.thread_time_ns(), self._read_queued()
        spent = resource.getrusage(resource.RUSAGE_SELF)
        own = resource.getrusage(resource.RUSAGE_THREAD)
        values = {
            m.THREAD_CPU: on_cpu,
            m.THREAD_SLEEPS: own.ru_nvcsw,
            m.THREAD_PREEMPTIONS: own.ru_nivcsw,
            m.PROCESS_CPU: time.process_time_ns(),
            m.KERNEL_CPU: spent.ru_stime * 1e9,
            m.PAGE_FAULTS: spent.ru_minflt + spent.ru_majflt,
            m.BLOCK_IO: spent.ru_inblock + spent.ru_oublock,
        }
        if queued is not None:
            values[m.THREAD_QUEUED] = queued
        for name, value in values.items():
            file.sample(_NAMES[name], at_ns, value)
        if not self._has_threads:
            self._has_threads = True
            for name, value in _count_threads().items():
                file.sample(name, at_ns, value)

    def _read_queued(self) -> int | None:
        if self._schedstat is None:
            return None
        try:
            return int(os.pread(self._schedstat, 64, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return None


def _count_threads() -> dict[str, int]:
    found = {}
    with contextlib.suppress(AttributeError, OSError):
        found[m.USABLE_CPUS] = len(os.sched_getaffinity(0))
    with contextlib.suppress(AttributeError, KeyError):
        found[m.COMPUTE_THREADS] = int(sys.modules["torch"].get_num_threads())
    return found
