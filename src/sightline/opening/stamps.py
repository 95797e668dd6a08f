"""What changes with a file, and with the program: an answer of another one is not taken."""

from __future__ import annotations

import os
from functools import cache


def stamp_file(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """What changes with a file, also where its size and its time are set to be the same."""
    try:
        return _stamp(str(path), os.stat(path))  # noqa: PTH116  # pathlib takes twice as long
    except OSError:
        return (str(path),)


@cache
def stamp_program() -> tuple[tuple[str, ...], ...]:
    """The program's own files, the compiled reader and the page among them: 900 in 6 ms."""
    own = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
    return tuple(sorted(_stamp_folder(own)))


def _stamp_folder(folder: str) -> list[tuple[str, ...]]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    found += _stamp_folder(entry.path)
            elif entry.name.endswith((".py", ".so", ".html")):
                found.append(_stamp(entry.path, entry.stat()))
    return found


def _stamp(path: str, stat: os.stat_result) -> tuple[str, ...]:
    known = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    return path, *map(str, known)
