"""Writes a file whole or not at all: beside its place, so that a full disk costs no old one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path


def write_whole(target: Path, data: bytes, *, through_links: bool = True) -> None:
    """Write a file, in place of an old one once all of it is on the disk. Raises OSError.

    A link keeps leading where it leads, unless links are not followed: then the file takes its
    place. What is not plain file (a pipe, a device) is written to.
    """
    with write_beside(target, through_links=through_links) as part, part.open("wb") as file:
        file.write(data)


@contextlib.contextmanager
def write_beside(target: Path, *, through_links: bool = True) -> Iterator[Path]:
    """A path to write a file at, which takes its place where the block ends well. Raises OSError.

    As `write_whole`. What is at the path, in whatever state, is removed where the block fails.
    """
    place = target.resolve() if through_links else target
    old = _look_at(place, through_links=through_links)
    if through_links and old is not None and not stat.S_ISREG(old.st_mode):
        yield target
        return
    if old is not None and stat.S_ISREG(old.st_mode):
        os.close(os.open(place, os.O_WRONLY))  # what may not be written is not replaced, either
    part = place.with_name(f".{secrets.token_hex(8)}.part")  # as long a name may have no room
    try:
        with part.open("xb") as file:
            if old is not None and stat.S_ISREG(old.st_mode):
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
    except PermissionError:
        if old is None or not through_links:
            raise
        yield place  # a file of ours in a folder of somebody else has no other way
        return
    try:
        yield part
        _take_place(part, place)
    finally:
        part.unlink(missing_ok=True)


def _take_place(part: Path, place: Path) -> None:
    try:
        part.replace(place)
    except OSError as error:
        if error.errno != errno.EBUSY:  # a file that is mounted into a container
            raise
        shutil.copyfile(part, place)


def _look_at(path: Path, *, through_links: bool) -> os.stat_result | None:
    try:
        return path.stat(follow_symlinks=through_links)
    except FileNotFoundError:
        return None
