"""The writer of one process's event file. model.event_file says what is in it, and why.

A write costs no system call: slots lie in shared memory that the operating system keeps when the
process dies. Numbers of slots come from one counter, so threads never share a slot.
"""

from __future__ import annotations

import errno
import itertools
import json
import mmap
import os
import threading
import time
from pathlib import Path
from typing import Any

from sightline.model import event_file as f

MAX_BYTES = 1 << 30  # 33 million events: more is a mistake in the loop, and disks are shared
CLOCK_EVERY_NS = 1_000_000_000
MAX_NAMES = 100_000  # a name made anew for each event must not fill the program's memory
MAX_TEXT = 60_000
_pack = f.EVENT.pack_into
_slot_bytes, _chunk_bytes, _no_device = f.SLOT, f.CHUNK, f.NO_DEVICE  # looked up 30 ns faster
_sink = mmap.mmap(-1, mmap.PAGESIZE)  # where events go for which there is no room
now = time.monotonic_ns


class Recorder:
    """One process's event file. Raises OSError from the constructor only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()
        self._names: dict[str, int] = {}
        self._own = threading.local()
        self._texts = itertools.count(1)
        self._next = itertools.count(f.FIRST_EVENT).__next__
        self.next_clock = 0
        self.lost = 0
        self.error = 0
        try:
            self._first = self._mapped(0)
        except OSError:
            os.close(self._file)
            path.unlink(missing_ok=True)
            raise
        self._at = (self._first, 0)  # the chunk that is written to and where it begins
        f.HEADER.pack_into(self._first, 0, f.MAGIC, f.VERSION, self.pid, now())
        self._status(f.WRITING)
        self.clock()

    @classmethod
    def in_memory(cls) -> Recorder:
        """A recorder of one chunk without a file, to measure what writing costs."""
        made = cls.__new__(cls)
        made._lock, made._own = threading.Lock(), threading.local()
        made._names, made._texts = {}, itertools.count(1)
        made._next = itertools.count(f.FIRST_EVENT).__next__
        made._at = (mmap.mmap(-1, f.CHUNK), 0)
        return made

    def _mapped(self, offset: int) -> mmap.mmap:
        """A chunk, with its bytes on the disk: touching a hole of a full disk would be a SIGBUS."""
        if offset + f.CHUNK > MAX_BYTES:
            raise OSError(errno.EFBIG, "the event file is as long as it may be")
        os.posix_fallocate(self._file, offset, f.CHUNK)
        return mmap.mmap(self._file, f.CHUNK, offset=offset)

    def _slot(self) -> tuple[mmap.mmap, int]:
        """The memory and offset of a slot that is nobody else's."""
        place = self._next() * f.SLOT
        chunk, base = self._at
        at = place - base
        return (chunk, at) if 0 <= at < f.CHUNK else self._slot_elsewhere(place)

    def _slot_elsewhere(self, place: int) -> tuple[mmap.mmap, int]:
        base = place // f.CHUNK * f.CHUNK
        with self._lock:
            chunk, current = self._at
            try:
                if base < current:  # another thread has gone on to the next chunk in between
                    return mmap.mmap(self._file, f.CHUNK, offset=base), place - base
                if base > current:
                    if self.error:
                        raise OSError(self.error, "")
                    chunk = self._mapped(base)
                    self._at = (chunk, base)
                return chunk, place - base
            except OSError as error:
                self.error = error.errno or errno.EIO
                self.lost += 1
                self._status(f.FULL)
                return _sink, 0

    def begin(self, kind: int, name: int, start: int, extra: int = 0) -> tuple[mmap.mmap, int]:
        """Write an open range; where it lies, so that its end can be written there."""
        # As in _slot and thread: a call less is a tenth of the whole cost.
        place = self._next() * _slot_bytes
        chunk, base = self._at
        at = place - base
        if not 0 <= at < _chunk_bytes:
            chunk, at = self._slot_elsewhere(place)
        try:
            tid = self._own.tid
        except AttributeError:
            tid = self.thread()
        _pack(chunk, at, start, 0, name, tid, extra, 0, _no_device, kind)
        return chunk, at

    def end(
        self, chunk: mmap.mmap, at: int, start: int, end: int, name: int, extra: int,
        kind: int = f.RANGE,
    ) -> None:  # fmt: skip
        """Write the end of a range over its beginning."""
        try:
            tid = self._own.tid
        except AttributeError:
            tid = self.thread()
        _pack(
            chunk, at, start, end, name, tid, extra, f.HAS_PAYLOAD if extra else 0, _no_device, kind
        )

    def put(
        self, kind: int, name: int, first: int, second: int = 0, *,
        extra: int = 0, flags: int = 0, device: int = f.NO_DEVICE,
    ) -> None:  # fmt: skip
        """Write one whole event."""
        chunk, at = self._slot()
        _pack(chunk, at, first, second, name, self.thread(), extra, flags, device, kind)

    def sample(self, metric: str, at_ns: int, value: float, device: int = f.NO_DEVICE) -> None:
        """Write the value of a metric at a time; its unit stands in brackets after its name."""
        number = self.name(metric)
        chunk, at = self._slot()
        f.COUNTER.pack_into(chunk, at, at_ns, value, number, self.thread(), 0, 0, device, f.SAMPLE)

    def thread(self) -> int:
        """The operating system's number of this thread, as profilers write it."""
        try:
            tid: int = self._own.tid
        except AttributeError:
            tid = self._own.tid = threading.get_native_id() & 0xFFFFFFFF
        return tid

    def name(self, text: str) -> int:
        """The number that stands for a name; the name is written when it is first seen."""
        found = self._names.get(text)
        if found is None:
            found = self.text(text, f.NAME)
            if len(self._names) < MAX_NAMES:
                # Two threads may both write a new name: both numbers stand for it.
                self._names[text] = found
        return found

    def text(self, text: str, kind: int) -> int:
        """Write a text in as many slots as it needs; its number."""
        data = text.encode("utf-8", "replace")[:MAX_TEXT]
        number = next(self._texts)
        for part, at in enumerate(range(0, max(len(data), 1), f.TEXT_BYTES)):
            piece = data[at : at + f.TEXT_BYTES]
            chunk, place = self._slot()
            f.TEXT.pack_into(chunk, place, number, part, len(piece), piece, kind)
        return number

    def fact(self, **facts: Any) -> None:
        """Write facts on the process; a later value of a key counts."""
        self.text(json.dumps(facts, separators=(",", ":"), default=str), f.FACT)

    def clock(self) -> None:
        """Write a pair of monotonic and wall clock, and how far apart they were read at most."""
        pairs = []
        for _ in range(3):  # the closest of three: an interruption between two reads shows
            before, wall, after = now(), time.time_ns(), now()
            pairs.append((after - before, before + (after - before) // 2, wall))
        apart, at_ns, wall = min(pairs)
        self.put(f.CLOCK, 0, at_ns, wall, extra=min(apart, 0xFFFFFFFF))
        self.next_clock = at_ns + CLOCK_EVERY_NS

    def clock_if_due(self, at_ns: int) -> None:
        """Write a pair of clocks once a second, so that their drift is known."""
        if at_ns > self.next_clock:
            self.clock()

    def _status(self, state: int) -> None:
        f.STATUS.pack_into(self._first, f.SLOT, state, self.error, self.lost, 0, 0, 0, 0, f.STATE)

    def close(self) -> None:
        """Write that the process ended in order. Threads may go on writing: nothing is unmapped."""
        self.clock()
        self._status(f.FULL if self.error else f.CLOSED)
