"""A recording's bytes: opened read-only, decompressed on the way (gzip, zstd)."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import BinaryIO

from sightline.errors import InputError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HEAD_BYTES = 64 * 1024
# What is read whole into memory unpacks to no more: a text of 1 GiB takes some 4 GiB on its way
# into columns, and a compressed one of 1 MB can unpack to it.
WHOLE_BYTES = 1 << 30
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


class _Counted(io.RawIOBase):
    """A file that tells how much of it is read."""

    def __init__(self, raw: io.RawIOBase, tell: Callable[[int], None]) -> None:
        self._raw, self._tell = raw, tell

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._raw.seek(offset, whence)

    def readinto(self, buffer: bytearray | memoryview) -> int | None:  # type: ignore[override]
        count = self._raw.readinto(buffer)
        self._tell(count or 0)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Zstd(zstd.ZstdFile):
    """Closing it closes the file below, too."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self._raw = raw
        super().__init__(raw)

    def close(self) -> None:
        super().close()
        self._raw.close()


@dataclass(frozen=True)
class Source:
    """One recording on disk. `given` is the path as the person wrote it."""

    path: Path
    given: str
    on_read: Callable[[int], None] | None = None  # told how many stored bytes were just read

    @property
    def size(self) -> int:
        """Size in bytes, as stored; of a folder, that of its files."""
        if self.path.is_dir():
            return sum(f.stat().st_size for f in self.files())
        return self.path.stat().st_size

    def files(self) -> list[Path]:
        """Of a recording that is a folder, its files and those of the folders in it, sorted."""
        return sorted(f for f in self.path.rglob("*") if f.is_file())

    def listing(self) -> bytes:
        """What stands for the content of a recording that is a folder: names, sizes and times."""
        files = sorted(f for f in self.path.iterdir() if f.is_file())
        lines = [f"{f.name} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in files]
        return "\n".join(["FOLDER", *lines]).encode("utf-8", "replace")

    def open(self) -> BinaryIO:
        """The decompressed bytes. Raises InputError where the file cannot be opened."""
        try:
            raw = self._stored()
            magic = raw.read(4)
            raw.seek(0)
        except OSError as error:
            raise InputError(
                f"cannot read {self.given}",
                why=(error.strerror or str(error)).lower(),
                hint="Check the path and its permissions." if self.path.exists() else None,
            ) from error
        if magic[:2] == _GZIP:
            unpacked = gzip.GzipFile(fileobj=raw)
            # Closing the one closes the other.
            unpacked.myfileobj = raw  # type: ignore[assignment]
            return unpacked  # type: ignore[return-value]
        if magic == _ZSTD:
            return _Zstd(raw)  # type: ignore[return-value]
        return raw

    def plain_path(self) -> Path:
        """The path, for readers that look into the file themselves. Raises InputError if packed."""
        if self.path.is_file():
            with self.path.open("rb") as stream:
                magic = stream.read(4)
            for start, kind, command in (
                (_GZIP, "gzip", "gunzip --keep"),
                (_ZSTD, "zstd", "unzstd --keep"),
            ):
                if magic.startswith(start):
                    raise InputError(
                        f"cannot read {self.given}",
                        why=f"it is compressed with {kind}, and this format cannot be read as a "
                        "stream",
                        hint=f"Decompress it first:  {command} {quote(self.given)}",
                    )
        return self.path

    def _stored(self) -> io.BufferedReader:
        raw = self.path.open("rb", buffering=0)
        return io.BufferedReader(raw if self.on_read is None else _Counted(raw, self.on_read))

    def head(self) -> bytes:
        """The first 64 kB of the decompressed bytes, or as much of it as is intact.

        Of a folder, its listing.
        """
        if self.path.is_dir():
            return self.listing()[:HEAD_BYTES]
        with self.open() as stream:
            return read_intact(stream, HEAD_BYTES)[0]


def read_intact(stream: BinaryIO, limit: int) -> tuple[bytes, str | None]:
    """Up to `limit` bytes, and the reason where a damaged compressed stream ends early.

    One decompressed block at a time, so that everything before the damage is kept.
    """
    blocks: list[bytes] = []
    wanted = limit
    try:
        # Every stream that Source.open gives is buffered, which BinaryIO does not say.
        while wanted > 0 and (block := stream.read1(wanted)):  # type: ignore[attr-defined]
            blocks.append(block)
            wanted -= len(block)
    except EOFError:
        return b"".join(blocks), "the compressed file ends in the middle"
    except (zlib.error, gzip.BadGzipFile, zstd.ZstdError) as error:
        return b"".join(blocks), f"the compressed data is damaged ({error})"
    return b"".join(blocks), None
