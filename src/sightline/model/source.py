"""A recording's bytes: opened read-only, decompressed on the way."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sightline.errors import InputError

HEAD_BYTES = 64 * 1024
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Source:
    """One recording on disk. `given` is the path as the person wrote it."""

    path: Path
    given: str

    @property
    def size(self) -> int:
        """Size in bytes, as stored."""
        return self.path.stat().st_size

    def open(self) -> BinaryIO:
        """The decompressed bytes. Raises InputError where the file cannot be opened."""
        try:
            raw = self.path.open("rb")
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
            raw.close()
            raise InputError(
                f"cannot read {self.given}",
                why="it is compressed with zstd, which this version does not read",
                hint=f"Unpack it first:  zstd -d {self.given}",
            )
        return raw

    def head(self) -> bytes:
        """The first 64 kB of the decompressed bytes, or as much of it as is intact."""
        with self.open() as stream:
            return read_intact(stream, HEAD_BYTES)[0]


def read_intact(stream: BinaryIO | io.BufferedIOBase, limit: int) -> tuple[bytes, str | None]:
    """Up to `limit` bytes, and the reason where a damaged compressed stream ends early."""
    try:
        return stream.read(limit), None
    except EOFError:
        return b"", "the compressed file ends in the middle"
    except (zlib.error, gzip.BadGzipFile) as error:
        return b"", f"the compressed data is damaged ({error})"
