"""Folders in which something is made or removed; those of dead processes are cleaned away.

scratch-PID-…/sightline-scratch     whose it is: machine and process
scratch-PID-…/work/                 what it is for
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

_OWNER = "sightline-scratch"
# Of another machine (a home on a network), or where processes cannot be asked for.
_OLD_S = 7 * 86400


def make_scratch(folder: Path) -> Path:
    """An empty folder below `folder`, to be given to remove_scratch."""
    import tempfile  # with `random`, 5 ms to load, as shutil and socket: what only reads needs none

    room = Path(tempfile.mkdtemp(prefix=f"scratch-{os.getpid()}-", dir=folder))
    (room / _OWNER).write_text(f"{_machine()} {os.getpid()}", encoding="ascii")
    work = room / "work"
    work.mkdir(mode=0o700)
    return work


def remove_scratch(work: Path) -> None:
    """Remove it, if make_scratch made it; who removes it last is its owner's word."""
    import shutil

    if (work.parent / _OWNER).is_file():
        shutil.rmtree(work, ignore_errors=True)
        with contextlib.suppress(OSError):
            (work.parent / _OWNER).unlink()
            work.parent.rmdir()


def write_at_once(path: Path, text: str) -> None:
    """Write a small file of the cache by one rename: no reader finds half of it. Raises OSError."""
    import tempfile

    path.parent.mkdir(exist_ok=True, mode=0o700)
    descriptor, scratch = tempfile.mkstemp(prefix=".part-", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        Path(scratch).replace(path)
    except OSError:
        Path(scratch).unlink(missing_ok=True)
        raise


def is_abandoned(room: Path) -> bool:
    """Whether a folder is a scratch of a process that has ended."""
    if not room.name.startswith("scratch-") or room.is_symlink():
        return False
    try:
        machine, pid = (room / _OWNER).read_text(encoding="ascii").split()
        age_s = time.time() - (room / _OWNER).stat().st_mtime
        number = int(pid)
    except (OSError, ValueError):
        return False
    if machine != _machine():
        return age_s > _OLD_S
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return age_s > _OLD_S


def _machine() -> str:
    """Stands for this machine without naming it."""
    import socket

    return hashlib.blake2b(socket.gethostname().encode(), digest_size=8).hexdigest()
