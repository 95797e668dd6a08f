"""What a recording contains, as a hash: the cache's key, and what every answer says it is about.

Reading 10 GB only to know that it has not changed would be slow, so the hash of a file's content
is remembered by its place, size, times of change and inode, as git's index does. A memo is taken
only if it says of itself that it is whole and about that file. Of a file that changed within the
last seconds none is made: its next change may bear the same times (git calls such a file racy).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from sightline.core.model.cache_folder import list_cache_folders, open_cache_folder
from sightline.errors import InputError
from sightline.opening.scratch import write_at_once

if TYPE_CHECKING:
    from sightline.core.model.source import Source

_PART_BYTES = 64 << 20  # hashed at once on one core
# The coarsest times of change in use are those of FAT, 2 s; ext4's move with the kernel's tick.
RACY_NS = 2 * 10**9
_HASH = re.compile(r"[0-9a-f]{32}")


def hash_content(source: Source) -> str:
    """32 hexadecimal digits that stand for what a recording contains. Raises InputError."""
    try:
        if source.path.is_dir():
            names = [(os.fsencode(f.relative_to(source.path)), f) for f in source.files()]
            lines = ["FOLDER", *(f"{name!r} {_hash_one(f)}" for name, f in names)]
            return _short("\n".join(lines).encode())
        return hash_file(source.path)
    except OSError as error:
        raise InputError(
            f"cannot read {source.given}", why=(error.strerror or str(error)).lower()
        ) from error


def hash_file(path: Path) -> str:
    """The same of a recording that is one file. Raises OSError."""
    found = _hash_one(path)
    # A database's last transactions may stand in a log beside it (SQLite's -wal).
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        found = _short(f"{found} {_hash_one(log)}".encode())
    return found


def _hash_one(path: Path) -> str:
    stat = path.stat()
    known_as = (
        os.fsencode(path.resolve())
        + (
            f" {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_dev} {stat.st_ino}"
        ).encode()
    )
    name = _short(known_as)
    for folder in list_cache_folders():
        if (known := read_memo(folder / "seen" / name)) is not None:
            return known
    digest = _digest(path, stat.st_size)
    if time.time_ns() - max(stat.st_ctime_ns, stat.st_mtime_ns) > RACY_NS:
        _write_memo(open_cache_folder() / "seen" / name, digest)
    return digest


def read_memo(path: Path) -> str | None:
    """The hash that a memo holds; None where there is none, or it is not whole."""
    try:
        # A memo has 65 characters: what is larger is not read.
        with path.open("rb") as file:
            digest, _, check = file.read(100).decode("ascii", "replace").partition(" ")
    except OSError:
        return None
    if _HASH.fullmatch(digest) and check == _check(path.name, digest):
        return digest
    return None


def _check(name: str, digest: str) -> str:
    return _short(f"sightline memo {name} {digest}".encode())


def _write_memo(path: Path, digest: str) -> None:
    """All at once: a disk may be full in the middle. A memo that cannot be kept is no loss."""
    with contextlib.suppress(OSError):
        write_at_once(path, f"{digest} {_check(path.name, digest)}")


def _digest(path: Path, size: int) -> str:
    """What a file contains, in short. Of a large file the parts are read on several cores."""
    starts = range(0, max(size, 1), _PART_BYTES)
    if len(starts) == 1:
        return _short(_digest_of_part(path, 0))
    from concurrent.futures import ThreadPoolExecutor  # 6 ms to load, for large files only

    with ThreadPoolExecutor(min(len(starts), os.cpu_count() or 1)) as pool:
        parts = list(pool.map(lambda start: _digest_of_part(path, start), starts))
    return _short(b"".join(parts))


def _digest_of_part(path: Path, start: int) -> bytes:
    digest = blake3()
    left = _PART_BYTES
    with path.open("rb", buffering=0) as raw:
        raw.seek(start)
        while left > 0 and (chunk := raw.read(min(left, 1 << 20))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.digest()


def _short(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
