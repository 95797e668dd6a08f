"""A write-ahead log: what was acknowledged is on the disk, and is read again after a kill.

Files NUMBER.wal of records: length and CRC-32 of what follows, a letter for its kind, its bytes. A
record counts once `sync` came back. Several threads that wait at a time share one fsync. Of a
record that was cut off by a kill nothing is read; nobody was told that it was kept. Damage in the
middle takes the records that it lies in, and none behind them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from sightline.core.units import format_several

_HEAD = struct.Struct("<II")
_FILE = re.compile(r"(\d{12})\.wal")
_MOST = 1 << 28  # bytes of a record: ours; a batch is 64 MiB at most
# How the bytes of a record of ours begin: a letter, and of all but samples an object.
_BEGINS = re.compile(rb"P|[A-Z]\{")
_TRIED = 4  # times a file's bytes are summed while the next whole record is looked for


class Journal:
    """The log of a store, open for appending to one file."""

    def __init__(self, folder: Path, number: int) -> None:
        """Begin the file of this number, which must not be there yet. Raises OSError."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._write, self._sync = threading.Lock(), threading.Lock()
        self._written = self._synced = 0
        self._file: FileIO
        self.number = number
        self._begin(number)

    def append(self, kind: bytes, payload: bytes) -> int:
        """Write a record, not yet for sure; what to give `sync`. Raises OSError."""
        body = kind + payload
        record = _HEAD.pack(len(body), zlib.crc32(body)) + body
        with self._write:
            place = self._file.tell()
            try:
                rest = memoryview(record)
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError:  # a full disk: half a record would hide those that follow
                os.ftruncate(self._file.fileno(), place)
                self._file.seek(place)
                raise
            self._written += 1
            return self._written

    def sync(self, ticket: int) -> None:
        """Come back once the record of this ticket is on the disk. Raises OSError."""
        if self._synced >= ticket:
            return
        with self._sync:
            if self._synced >= ticket:
                return
            with self._write:
                written, number = self._written, os.dup(self._file.fileno())
            try:
                os.fdatasync(number)
            finally:
                os.close(number)
            self._synced = written

    def rotate(self) -> int:
        """Begin the next file; the number of the one that is complete now. Raises OSError."""
        with self._sync, self._write:
            os.fdatasync(self._file.fileno())
            self._synced = self._written
            self._file.close()
            done, self.number = self.number, self.number + 1
            self._begin(self.number)
            return done

    def drop(self, last: int) -> None:
        """Remove the files up to this number."""
        for number, path in list_files(self._folder):
            if number <= last:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close; everything that was appended is on the disk."""
        with self._sync, self._write:
            os.fdatasync(self._file.fileno())
            self._file.close()

    def _begin(self, number: int) -> None:
        path = self._folder / f"{number:012d}.wal"
        self._file = path.open("xb", buffering=0)
        sync_folder(self._folder)


def list_files(folder: Path) -> list[tuple[int, Path]]:
    """The files of a log with their numbers, in order."""
    found = [(_FILE.fullmatch(path.name), path) for path in folder.glob("*.wal")]
    return sorted((int(match[1]), path) for match, path in found if match)


@dataclass(frozen=True)
class Gap:
    """Bytes of a log that are no record; `is_end`: no whole record comes behind them."""

    begin: int
    size: int
    is_end: bool


def keep_gaps(path: Path, gaps: Sequence[Gap]) -> str:
    """What is said of a log's gaps; a file of it with others than an end stays as it is beside it.

    An end that is not whole is what a kill leaves.
    """
    lost = format_several(sum(gap.size for gap in gaps), "byte")
    if len(gaps) == 1 and gaps[0].is_end:
        return (
            f"{path.name} of the log ends with {lost} of an incomplete record, as after a kill: "
            "its sender was never told that it is kept"
        )
    kept = path.with_suffix(".damaged")
    with contextlib.suppress(FileExistsError):
        kept.hardlink_to(path)
    return (
        f"{path.name} of the log is damaged in {format_several(len(gaps), 'place')}: {lost} could "
        f"not be read, and what was sent in them is missing; the file stays as {kept.name}"
    )


def read_records(path: Path) -> Iterator[tuple[bytes, bytes] | Gap]:
    """Kind and bytes of each whole record, and each gap between them."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            place = 0
            while place < len(data):
                end = _find_end(data, place)
                if end is None:
                    found = _find_record(data, place + 1)
                    yield Gap(place, (found or len(data)) - place, is_end=found is None)
                    if found is None:
                        return
                    place = found
                    continue
                yield data[place + 8 : place + 9], data[place + 9 : end]
                place = end


def _find_end(data: mmap.mmap, begin: int) -> int | None:
    """Where the record that begins here ends; None where none that is whole does."""
    if begin + _HEAD.size > len(data):
        return None
    length, check = _HEAD.unpack_from(data, begin)
    end = begin + _HEAD.size + length
    if not 1 <= length <= _MOST or end > len(data):
        return None
    return end if zlib.crc32(data[begin + _HEAD.size : end]) == check else None


def _find_record(data: mmap.mmap, begin: int) -> int | None:
    """The next place at which a whole record begins.

    What only looks like one is summed in vain: of bytes that somebody chose so, up to four times
    the file.
    """
    left = _TRIED * len(data)
    for match in _BEGINS.finditer(data, begin + _HEAD.size):
        start = match.start() - _HEAD.size
        length = _HEAD.unpack_from(data, start)[0]
        if 1 <= length <= min(_MOST, len(data) - match.start()):
            left -= length
            if left < 0:
                return None
            if _find_end(data, start) is not None:
                return start
    return None


def sync_folder(folder: Path) -> None:
    """Make sure that the names of files in a folder are on the disk. Raises OSError."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_file(path: Path) -> None:
    """Make sure that a file's bytes are on the disk. Raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
