"""The cache of imports: one small store per recording, keyed by what the recording contains.

Reading 10 GB only to know that it has not changed would be slow, so the key of a file's content
is remembered by (path, size, time of change, inode), as git's index does.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blake3 import blake3

from sightline.errors import InputError
from sightline.model.cache_folder import find_cache_folder
from sightline.model.source import Source

DEFAULT_LIMIT_BYTES = 20 * 10**9

_PART_BYTES = 64 << 20  # hashed at once on one core

_in_use: set[Path] = set()  # entries that this process reads; they are never trimmed


def name_entry(source: Source, salt: str) -> str:
    """Name of the cache entry for a file's content, read by the importer that `salt` describes."""
    return hashlib.blake2b(f"{_content(source)} {salt}".encode(), digest_size=16).hexdigest()


def _content(source: Source) -> str:
    if source.path.is_dir():
        return hashlib.blake2b(source.listing(), digest_size=16).hexdigest()
    try:
        stat = source.path.stat()
        known_as = f"{source.path.resolve()} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
        memo = (
            find_cache_folder()
            / "seen"
            / hashlib.blake2b(known_as.encode(), digest_size=16).hexdigest()
        )
        with contextlib.suppress(OSError):
            return memo.read_text()
        digest = _digest(source.path, stat.st_size)
    except OSError as error:
        raise InputError(
            f"cannot read {source.given}", why=(error.strerror or str(error)).lower()
        ) from error
    with contextlib.suppress(OSError):
        memo.parent.mkdir(parents=True, exist_ok=True)
        memo.write_text(digest)
    return digest


def _digest(path: Path, size: int) -> str:
    """What a file contains, in short. Of a large file the parts are read on several cores."""
    starts = range(0, max(size, 1), _PART_BYTES)
    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        parts = list(pool.map(lambda start: _digest_of_part(path, start), starts))
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def _digest_of_part(path: Path, start: int) -> bytes:
    digest = blake3()
    left = _PART_BYTES
    with path.open("rb", buffering=0) as raw:
        raw.seek(start)
        while left > 0 and (chunk := raw.read(min(left, 1 << 20))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.digest()


def mark_used(entry: Path) -> None:
    """Mark an entry as used now, by this process."""
    _in_use.add(entry)
    with contextlib.suppress(OSError):
        os.utime(entry)


def trim_cache(limit_bytes: int | None = None) -> None:
    """Remove the entries used longest ago until the rest fits SIGHTLINE_CACHE_BYTES."""
    if limit_bytes is None:
        text = os.environ.get("SIGHTLINE_CACHE_BYTES", "")
        limit_bytes = int(text) if text.isdecimal() else DEFAULT_LIMIT_BYTES
    entries = sorted(
        (p for p in find_cache_folder().iterdir() if p.is_dir() and p.name != "seen"),
        key=lambda p: p.stat().st_mtime,
        reverse=True,
    )
    total = 0
    for entry in entries:
        total += sum(f.stat().st_size for f in entry.rglob("*") if f.is_file())
        if total > limit_bytes and entry not in _in_use:
            shutil.rmtree(entry, ignore_errors=True)


def clear_cache() -> int:
    """Remove the whole cache; the number of bytes that were freed."""
    if not find_cache_folder().is_dir():
        return 0
    size = sum(f.stat().st_size for f in find_cache_folder().rglob("*") if f.is_file())
    shutil.rmtree(find_cache_folder(), ignore_errors=True)
    return size
