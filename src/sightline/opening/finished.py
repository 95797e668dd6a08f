"""What was printed of the same files before: found again without reading a table.

Polars alone takes 130 ms to load, and the answer about a small recording is a text of some kB. It
depends on the files' content and names, on what was asked, and on the program; nothing else. Where
a folder or a pattern is named, or other packages have rules or analyses, nothing is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Sequence

from sightline.core import registry
from sightline.opening.answers import find_answer, keep_answer
from sightline.opening.content import RACY_NS, hash_file
from sightline.opening.stamps import stamp_file, stamp_program

# Larger files are hashed while they are read. Of them the time of change and inode are asked, which
# the hash is remembered by as well (opening/content.py), once the last change is so old that
# another one would show.
MAX_HASHED_BYTES = 64 << 20
MAX_FILES = 1000  # of a store: 50 tables of each rank
MAX_CHARACTERS = 8 << 20  # the page of a million events has 5 MB


def name_request(paths: Sequence[str], asked: Sequence[object]) -> str | None:
    """Names what is asked of these files; None where the answer may depend on something else."""
    from pathlib import Path

    described = []
    hashed = 0
    try:
        for given in paths:
            path = Path(given)
            found = path.stat()
            known: object
            if stat.S_ISREG(found.st_mode) and hashed + found.st_size <= MAX_HASHED_BYTES:
                hashed += found.st_size
                known = hash_file(path)
            elif stat.S_ISREG(found.st_mode):
                known = _stamp_settled([given])
            elif (path / "run.json").is_file():
                known = _stamp_settled(_list_files(given))
            else:
                return None
            if known is None:
                return None
            # A rank may stand in the name of the file, or of its folder.
            described.append((given, os.fspath(path.absolute()), known))
    except (OSError, ValueError):  # what is wrong with it is said by who reads it
        return None
    if registry.has_outsiders():
        return None
    known_by = json.dumps([described, asked, stamp_program()])
    return hashlib.blake2b(known_by.encode(), digest_size=16).hexdigest()


def _list_files(folder: str) -> list[str]:
    """The files of a store, sorted, or one more than are looked at."""
    found: list[str] = []
    for place, _, names in os.walk(folder):
        found += [f"{place}/{name}" for name in names]
        if len(found) > MAX_FILES:
            break
    return sorted(found)


def _stamp_settled(paths: list[str]) -> list[tuple[str, ...]] | None:
    """What changes with these files; None where one has changed just now, or there are too many."""
    settled_ns = time.time_ns() - RACY_NS
    if len(paths) > MAX_FILES:
        return None
    for path in paths:
        found = os.stat(path)  # noqa: PTH116
        if max(found.st_mtime_ns, found.st_ctime_ns) > settled_ns:
            return None
    return [stamp_file(path) for path in paths]


def keep_finished(request: Callable[[], str | None], part: str, make: Callable[[], str]) -> str:
    """The text that `make` makes of what `request` names; found where it was kept.

    `part` is a word for what is made, of letters, digits and hyphens.
    """
    name = request()
    if name is None:
        return make()
    text = find_answer(f"{name}-{part}")
    if text is None:
        text = make()
        # The files may have changed while they were read.
        if len(text) <= MAX_CHARACTERS and request() == name:
            keep_answer(f"{name}-{part}", text)
    return text
