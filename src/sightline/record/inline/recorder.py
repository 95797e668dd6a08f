"""The writer of one process's event file. model.event_file says what is in it, and why.

A write costs no system call: slots lie in shared memory that the operating system keeps when the
process dies. The slots of a chunk come from one iterator, so threads never share one.
"""

from __future__ import annotations

import errno
import itertools
import json
import mmap
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightline.core.model import event_file as f
from sightline.record.inline.compiled import marks

MAX_BYTES = f.MOST_BYTES
CLOCK_EVERY_NS = 1_000_000_000
MAX_NAMES = 100_000  # a name made anew for each event must not fill the program's memory
MAX_TEXT = 60_000
_pack = f.EVENT.pack_into
_no_device = f.NO_DEVICE  # looked up 30 ns faster
_sink = mmap.mmap(-1, mmap.PAGESIZE)  # where events go for which there is no room
_put_end, _end_at, _kind_at = f.END.pack_into, f.END_AT, f.KIND_AT
now = time.monotonic_ns


def _slots_of(chunk: mmap.mmap, first: int = 0) -> tuple[mmap.mmap, Callable[[], int]]:
    """A chunk, and what gives the offset of its next free slot, once to whoever asks."""
    if marks is not None:
        return chunk, marks.Slots(chunk, first)
    return chunk, iter(range(first * f.SLOT, f.CHUNK, f.SLOT)).__next__


def end(chunk: mmap.mmap, at: int, ended: int, kind: int) -> None:
    """Write the end of an open range into its slot, then that it is whole: a range, or a step."""
    _put_end(chunk, at + _end_at, ended)
    chunk[at + _kind_at] = kind


class Recorder:
    """One process's event file. Raises OSError from the constructor only."""

    # The compiled part of inline.annotate reads some of them where they lie.
    __slots__ = (
        "_chunks",
        "_file",
        "_first",
        "_free",
        "_lock",
        "_own",
        "_texts",
        "error",
        "lost",
        "next_clock",
        "numbers",
        "path",
        "pid",
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = os.getpid()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()
        self.numbers: dict[str, int] = {}  # of names that are written
        self._own = threading.local()
        self._texts = itertools.count(1)
        self.next_clock = 0
        self.lost = 0
        self.error = 0
        try:
            self._first = self._mapped(0)
        except OSError:
            os.close(self._file)
            path.unlink(missing_ok=True)
            raise
        self._chunks = 1
        self._free = _slots_of(self._first, f.FIRST_EVENT)
        f.HEADER.pack_into(self._first, 0, f.MAGIC, f.VERSION, self.pid, now())
        self._status(f.WRITING)
        self.clock()

    @classmethod
    def in_memory(cls) -> Recorder:
        """A recorder of one chunk without a file, to measure what writing costs."""
        made = cls.__new__(cls)
        made._lock, made._own = threading.Lock(), threading.local()
        made.numbers, made._texts = {}, itertools.count(1)
        made._free = _slots_of(mmap.mmap(-1, f.CHUNK))
        return made

    def _mapped(self, offset: int) -> mmap.mmap:
        """A chunk, with its bytes on the disk: touching a hole of a full disk would be a SIGBUS."""
        if offset + f.CHUNK > MAX_BYTES:
            raise OSError(errno.EFBIG, "the event file has reached its maximum size")
        os.posix_fallocate(self._file, offset, f.CHUNK)
        return mmap.mmap(self._file, f.CHUNK, offset=offset)

    def _slot(self) -> tuple[mmap.mmap, int]:
        """The memory and offset of a slot that is nobody else's."""
        chunk, following = self._free
        try:
            return chunk, following()
        except StopIteration:
            return self._slot_of_next_chunk(chunk)

    def _slot_of_next_chunk(self, full: mmap.mmap) -> tuple[mmap.mmap, int]:
        with self._lock:
            try:
                if self._free[0] is full:  # else another thread has gone on in between
                    if self.error:
                        raise OSError(self.error, "")
                    self._free = _slots_of(self._mapped(self._chunks * f.CHUNK))
                    self._chunks += 1
            except OSError as error:
                self.error = error.errno or errno.EIO
                self.lost += 1
                self._status(f.FULL)
                return _sink, 0
        return self._slot()

    def begin(
        self, name: int, start: int, extra: int = 0, flags: int = 0, kind: int = f.OPEN
    ) -> tuple[mmap.mmap, int]:
        """Write an open range or step; where it lies, so that its end can be written there."""
        # As in _slot and thread: a call less is a tenth of the whole cost.
        chunk, following = self._free
        try:
            at = following()
        except StopIteration:
            chunk, at = self._slot_of_next_chunk(chunk)
        try:
            tid = self._own.tid
        except AttributeError:
            tid = self.thread()
        _pack(chunk, at, start, 0, name, tid, extra, flags, _no_device, kind)
        return chunk, at

    def put(
        self,
        kind: int,
        name: int,
        first: int,
        second: int = 0,
        *,
        extra: int = 0,
        flags: int = 0,
        device: int = f.NO_DEVICE,
    ) -> None:
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
        if type(text) is not str:
            text = str(text)
        found = self.numbers.get(text)
        if found is None:
            found = self.text(text, f.NAME)
            if len(self.numbers) < MAX_NAMES:
                # Two threads may both write a new name: both numbers stand for it.
                self.numbers[text] = found
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

    def _status(self, state: int, written: int = 0) -> None:
        place = (self._first, f.SLOT)
        f.STATUS.pack_into(*place, state, self.error, self.lost, written, 0, 0, 0, f.STATE)

    def close(self) -> None:
        """Write that the process ended in order. Threads may go on writing: nothing is unmapped."""
        self.clock()
        # Whatever other threads write from now on stands behind the next free slot.
        with self._lock:
            chunk, following = self._free
            try:
                at = following()
                chunk[at + _kind_at] = f.VOID
            except StopIteration:
                at = f.CHUNK
            written = ((self._chunks - 1) * f.CHUNK + at) // f.SLOT
        self._status(f.FULL if self.error else f.CLOSED, written)
