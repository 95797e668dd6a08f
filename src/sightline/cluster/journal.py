"""A write-ahead log: what was acknowledged is on the disk, and is read again after a kill.

Files NUMBER.wal of records: length and CRC-32 of what follows, a letter for its kind, its bytes. A
record counts once `sync` came back. Several threads that wait at a time share one fsync. Of a
record that was cut off by a kill nothing is read; nobody was told that it was kept.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

_HEAD = struct.Struct("<II")
_FILE = re.compile(r"(\d{12})\.wal")
_MOST = 1 << 28  # bytes of a record: ours; a batch is 64 MiB at most


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


def read_records(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Kind and bytes of each record, up to the first that is damaged or cut off."""
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, check = _HEAD.unpack(head)
            if not 1 <= length <= _MOST:
                return
            body = file.read(length)
            if len(body) < length or zlib.crc32(body) != check:
                return
            yield body[:1], body[1:]


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
