"""The events that sample threads, and whether this process may have them.

The event is the kernel's cpu-clock, which every machine has, virtual ones too, and whose period is
time: what a sample stands for is known without a clock rate. A thread is sampled by its own CPU
time; one that sleeps is not.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
from collections.abc import Iterable
from pathlib import Path

from sightline.errors import RequestError
from sightline.record.probe import perf_event as e
from sightline.record.sampling.records import REGISTERS, SAMPLE_TYPE

HZ = 99  # no round number, so that samples do not fall into step with timers (perf wiki)
MOST_HZ = 10_000  # a sample takes some µs: more would be a tenth of the program's time
_SOFTWARE, _CPU_CLOCK = 1, 0  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
_FORMAT_LOST = 1 << 4  # PERF_FORMAT_LOST, Linux 6.0
# 4 MiB hold 125 copies of stacks, 1.2 s of one processor at 99 Hz. Who has no right to lock that
# much (kernel.perf_event_mlock_kb: 516 for each processor, a page of it the head) gets an eighth.
_RING_PAGES = 1024
# What is copied of a stack. Of CPython 3.12's while it imports modules, the deepest it has, 16 KiB
# are too little for 8 in 100 samples of a short program. A record has 64 KiB at most.
STACK_BYTES, MOST_STACK_BYTES = 32 << 10, 60 << 10
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LEVEL = Path("/proc/sys/kernel/perf_event_paranoid")


class Events:
    """Events of threads, one for each processor, and the rings that they write to."""

    def __init__(self, hz: int, *, stack_bytes: int = STACK_BYTES, on_exec: bool = False) -> None:
        """`on_exec`: sampling begins when the thread becomes another program.

        `stack_bytes`: of each stack so much is copied, to be followed by sightline; 0: the kernel
        follows frame pointers.
        """
        self.period_ns = round(1e9 / hz)
        self.sees_kernel, self.rings = True, list[e.Ring]()
        self._by_cpu: dict[int, e.Ring] = {}
        self._events: list[int] = []
        self._flags = e.DISABLED | e.INHERIT | e.MMAP | e.MMAP2 | e.COMM | e.COMM_EXEC | e.TASK
        self._flags |= e.SAMPLE_ID_ALL | e.USE_CLOCK | e.WATERMARK | e.EXCLUDE_HV
        self._on_exec, self._reads_lost = on_exec, True
        self._sample_type, self.stack_bytes = SAMPLE_TYPE, 0
        if stack_bytes and platform.machine() == "x86_64":
            self.stack_bytes = stack_bytes
            self._sample_type |= e.REGISTERS | e.STACK
            self._flags |= e.EXCLUDE_CALLCHAIN_USER
        if on_exec:
            self._flags |= e.ENABLE_ON_EXEC
        self._has_raised = False

    def attach(self, tids: Iterable[int]) -> int:
        """Sample these threads and all that they start; how many there were.

        Raises RequestError where the kernel refuses.
        """
        cpus, count = e.list_processors(), 0
        for tid in tids:
            try:
                opened = [self._open(tid, cpu) for cpu in cpus]
            except ProcessLookupError:
                continue  # it has ended meanwhile
            except OSError as error:
                raise explain_refusal(error) from error
            for cpu, event in zip(cpus, opened, strict=True):
                self._connect(cpu, event)
            count += 1
        return count

    def _open(self, tid: int, cpu: int) -> int:
        while True:
            attributes = e.Attributes(
                type=_SOFTWARE,
                config=_CPU_CLOCK,
                period=self.period_ns,
                sample_type=self._sample_type,
                registers=REGISTERS if self.stack_bytes else 0,
                stack=self.stack_bytes,
                read_format=_FORMAT_LOST if self._reads_lost else 0,
                flags=self._flags | (0 if self.sees_kernel else e.EXCLUDE_KERNEL),
                wakeup=_RING_PAGES * _PAGE // 4,
                clock=e.CLOCK_MONOTONIC,
            )
            try:
                return e.open_event(attributes, tid, cpu)
            except OSError as error:
                # Only what was tried is given up: older kernels, users without rights.
                if error.errno == errno.EINVAL and self._reads_lost:
                    self._reads_lost = False
                elif error.errno in (errno.EACCES, errno.EPERM) and self.sees_kernel:
                    self.sees_kernel = False
                # Not before: what is started later inherits the limit.
                elif error.errno == errno.EMFILE and not self._has_raised:
                    e.raise_open_files()
                    self._has_raised = True
                else:
                    raise

    def _connect(self, cpu: int, event: int) -> None:
        self._events.append(event)
        ring = self._by_cpu.get(cpu)
        if ring is None:
            ring = self._by_cpu[cpu] = self._map(event)
            self.rings.append(ring)
        else:
            fcntl.ioctl(event, e.SET_OUTPUT, ring.event)
        if not self._on_exec:
            fcntl.ioctl(event, e.ENABLE, 0)

    def _map(self, event: int) -> e.Ring:
        pages = _RING_PAGES
        while True:
            try:
                return e.Ring(event, pages * _PAGE)
            except OSError as error:
                if pages <= 2:
                    raise explain_refusal(error) from error
                pages //= 2  # less may be locked here

    def read_counts(self) -> tuple[int, int]:
        """CPU time of all threads while they were sampled, in ns, and samples lost."""
        spent = lost = 0
        for event in self._events:
            words = os.read(event, 16)
            spent += int.from_bytes(words[:8], "little")
            lost += int.from_bytes(words[8:], "little")
        return spent, lost

    def enable(self) -> None:
        """Take samples again."""
        for event in self._events:
            fcntl.ioctl(event, e.ENABLE, 0)

    def disable(self) -> None:
        """Take no more samples; what is in the rings can still be read."""
        for event in self._events:
            fcntl.ioctl(event, e.DISABLE, 0)

    def close(self) -> None:
        """Close all events."""
        self.rings.clear()
        self._by_cpu.clear()
        for event in self._events:
            os.close(event)
        self._events.clear()


def check_rate(option: str, hz: int) -> None:
    """Raise RequestError where an option asks for a rate that is not taken."""
    if not 1 <= hz <= MOST_HZ:
        raise RequestError(
            f"{option} {hz} is not a valid value", why=f"it must be 1 to {MOST_HZ} a second"
        )


def explain_refusal(error: OSError) -> RequestError:
    """Why the kernel samples nothing, and what to do."""
    level = _LEVEL.read_text().strip() if _LEVEL.exists() else "not there"
    if error.errno in (errno.EACCES, errno.EPERM):
        return RequestError(
            "the kernel refuses to sample CPU stacks",
            why=f"perf_event_paranoid is {level}, or the process is another user's, "
            "or a container's seccomp profile forbids perf_event_open",
            hint="sudo sysctl kernel.perf_event_paranoid=2   # own programs; 1: with the kernel's "
            "part\nOr root, or CAP_PERFMON; in a container:  docker run --cap-add=PERFMON",
        )
    if error.errno == errno.EMFILE:
        return RequestError(
            "there are too many threads to sample",
            why="each needs a file descriptor for each processor, and the limit on open files is "
            "reached",
            hint="ulimit -n 1048576",
        )
    return RequestError(
        "CPU stacks cannot be sampled here", why=(error.strerror or str(error)).lower()
    )


def find_obstacle() -> str | None:
    """Why CPU stacks cannot be sampled here; None where they can. Tried, on this thread."""
    if platform.machine() not in e.SYSTEM_CALL:
        return f"this works on x86-64 and AArch64 only, not on {platform.machine()}"
    events = Events(HZ)
    try:
        events.attach([os.getpid()])
    except RequestError as error:
        return error.why or error.what
    finally:
        events.close()
    return None
