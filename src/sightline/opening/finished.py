"""What was printed of the same files before: found again without reading a table.

Polars alone takes 130 ms to load, and the answer about a small recording is a text of some kB. It
depends on the files' content and names, on what was asked, and on the program; nothing else. Where
a folder, a store or a pattern is named, or other packages have rules or analyses, nothing is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Sequence

from sightline import registry
from sightline.opening.answers import find_answer, keep_answer
from sightline.opening.content import hash_file
from sightline.opening.stamps import stamp_program

# Larger files are hashed while they are read, and take so long that loading Polars is nothing.
MAX_BYTES = 64 << 20
MAX_CHARACTERS = 8 << 20  # the page of a million events


def name_request(paths: Sequence[str], asked: Sequence[object]) -> str | None:
    """Names what is asked of these files; None where the answer may depend on something else."""
    from pathlib import Path

    described = []
    size = 0
    try:
        for given in paths:
            path = Path(given)
            found = path.stat()
            size += found.st_size
            if not stat.S_ISREG(found.st_mode) or size > MAX_BYTES:
                return None
            # A rank may stand in the name of the file, or of its folder.
            described.append((given, os.fspath(path.absolute()), hash_file(path)))
    except (OSError, ValueError):  # what is wrong with it is said by who reads it
        return None
    if registry.has_outsiders():
        return None
    known = json.dumps([described, asked, stamp_program()])
    return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()


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
