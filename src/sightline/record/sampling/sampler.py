"""A thread of sightline that reads the samples of a program's threads and writes them to a file."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from sightline.core.model.stack_file import StackWriter
from sightline.record.probe.compiled import place_map
from sightline.record.sampling.cost import measure_sample_cost
from sightline.record.sampling.events import HZ, STACK_BYTES, Events
from sightline.record.sampling.records import Record, list_records
from sightline.record.sampling.stacks import StackBuilder
from sightline.version import __version__

LOOK_S = 0.25  # what a kill of sightline loses at most, and what a map of compiled code may lag


class StackSampler:
    """Samples of processes and of all that they start, from now until `stop`."""

    def __init__(
        self, path: Path, hz: int = HZ, *, stack_bytes: int = STACK_BYTES, on_exec: bool = False
    ) -> None:
        """`on_exec`: the process waits to become the program. Raises OSError, RequestError."""
        self.began_ns = time.monotonic_ns()
        self._clock = (time.monotonic_ns(), time.time_ns())
        self._events = Events(hz, stack_bytes=stack_bytes, on_exec=on_exec)
        self._path, self._writer = path, StackWriter(path, self.began_ns)
        self._builder = StackBuilder(self._writer)
        self._late: list[Record] = []
        self._attached: set[int] = set()
        self._cpu_ns = 0
        self._problem: str | None = None
        self._lock = threading.Lock()  # of all that is above
        self._ended, self._end = os.pipe()
        self._thread = threading.Thread(target=self._run, name="sightline-stacks", daemon=True)
        self._write_facts({"hz": hz, "sightline": __version__})

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def attach(self, pids: Iterable[int]) -> int:
        """Sample these processes, too, unless they are; how many threads are new.

        Raises RequestError where the kernel refuses.
        """
        count = 0
        for pid in pids:
            try:
                tids = {int(name) for name in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208
            except OSError:
                continue  # it has ended
            with self._lock:
                # What a sampled thread started is in the rings by now, as its record comes first.
                if tids - self._attached - self._builder.inherited:
                    self._read(time.monotonic_ns())
                new = tids - self._attached - self._builder.inherited
                if not new:
                    continue
                self._builder.add_process(pid)
                count += self._events.attach(sorted(new))
                self._attached |= new
        return count

    def stop(self) -> str | None:
        """Take the rest and close the file; what went wrong, or None. An empty one is removed."""
        os.close(self._end)
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            began = time.thread_time_ns()
            self._events.disable()
            spent, lost = self._events.read_counts()
            with self._guarded():
                self._read(None)
            self._cpu_ns += time.thread_time_ns() - began
            self._events.close()
            with self._guarded():
                self._write_facts(
                    {
                        "finished": True,
                        "span_ns": [self.began_ns, time.monotonic_ns()],
                        "cpu_time_ns": spent,
                        "lost": max(lost, self._builder.lost),
                        "throttled": self._builder.throttled,
                        "samples": self._builder.taken,
                        "stacks_left_out": self._builder.stacks_left_out,
                        "own_cpu_ns": self._cpu_ns,
                        "sample_cost_ns": measure_sample_cost(),
                    }
                )
            self._writer.close()
            self._builder.close()
            os.close(self._ended)
        if self._problem is None and not self._builder.taken:
            self._path.unlink(missing_ok=True)
            return "no CPU stack was sampled: the program slept, or ran for too short a time"
        return self._problem

    def count_samples(self) -> int:
        """How many were taken and written so far."""
        with self._lock:
            return self._builder.taken

    def list_maps(self) -> list[Path]:
        """Where the sampled processes may have put the names of code that they compiled."""
        return [Path(place_map(pid)) for pid in sorted(self._builder.seen)]

    def _run(self) -> None:
        gone: set[int] = set()  # of threads that have ended: they would wake us for ever
        while self._problem is None:
            waiting = select.poll()
            waiting.register(self._ended, select.POLLHUP)
            for event in {ring.event for ring in self._events.rings} - gone:
                waiting.register(event, select.POLLIN)
            for event, state in waiting.poll(int(LOOK_S * 1000)):
                if event == self._ended:
                    return
                if state & (select.POLLHUP | select.POLLERR):
                    gone.add(event)
            began = time.thread_time_ns()
            with self._lock, self._guarded():
                self._read(time.monotonic_ns())
            self._cpu_ns += time.thread_time_ns() - began

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """A full disk ends the recording of stacks, and not the program's."""
        try:
            yield
        except OSError as error:
            self._problem = f"CPU stacks could not be written: {error.strerror}"

    def _read(self, until: int | None) -> None:
        """Take what the rings hold, up to a moment before they were read, and write it.

        What is newer waits: a mapping that it needs may be in a ring that was read before.
        """
        records = self._late
        for ring in self._events.rings:
            records += list_records(ring.take_bytes().data)
        records.sort(key=lambda record: record.time)
        ready = len(records)
        while until is not None and ready and records[ready - 1].time >= until:
            ready -= 1
        self._late = records[ready:]
        for record in records[:ready]:
            self._builder.take(record)
        self._builder.save()

    def _write_facts(self, more: dict[str, object]) -> None:
        self._writer.write_facts(
            {
                "period_ns": self._events.period_ns,
                "sees_kernel": self._events.sees_kernel,
                "stack_bytes": self._events.stack_bytes,
                "clock": [self._clock, (time.monotonic_ns(), time.time_ns())],
                **more,
            }
        )
