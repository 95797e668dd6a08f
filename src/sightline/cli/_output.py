"""Files that a command writes: never over a recording that it reads."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command names this module; pathlib takes 5 ms to load
    from pathlib import Path

_FOLDER_DEPTH = 6  # levels of a folder that was given, in which recordings are looked for


def refuse_inputs(targets: Iterable[Path], recordings: Sequence[str]) -> None:
    """Raise RequestError where a file to be written is one that is read.

    By device and inode: another spelling, a symbolic or a hard link are the same file.
    """
    from sightline.errors import RequestError

    inputs = None
    for target in targets:
        try:
            known = target.stat()
        except OSError:
            continue
        if inputs is None:
            inputs = _identify(recordings)
        found = inputs.get((known.st_dev, known.st_ino))
        # A device such as /dev/null or a terminal may be both.
        if found is not None and (stat.S_ISREG(known.st_mode) or stat.S_ISDIR(known.st_mode)):
            same = f"it is the recording {found}" if str(target) != found else "it is a recording"
            raise RequestError(
                f"cannot write {target}", why=f"{same} that is read", hint="Choose another name."
            )


def _identify(recordings: Sequence[str]) -> dict[tuple[int, int], str]:
    """(device, inode) of all files and folders that were given, and of what lies in the folders."""
    import glob
    from pathlib import Path

    found: dict[tuple[int, int], str] = {}

    def add(path: str) -> None:
        with contextlib.suppress(OSError):
            known = Path(path).stat()
            found.setdefault((known.st_dev, known.st_ino), path)

    for given in recordings:
        matched = [given] if os.path.lexists(given) else glob.glob(given, recursive=True)
        for path in matched:
            add(path)
            for folder, folders, files in os.walk(path):
                for name in (*folders, *files):
                    add(os.path.join(folder, name))  # noqa: PTH118 - as it was given
                if folder[len(path) :].count(os.sep) >= _FOLDER_DEPTH:
                    folders.clear()
    return found


def write_file(target: Path, data: bytes, recordings: Sequence[str]) -> None:
    """Write a file that was asked for. Raises RequestError over an input, InputError on failure."""
    from sightline.errors import InputError

    refuse_inputs([target], recordings)
    try:
        target.write_bytes(data)
    except OSError as error:
        raise InputError(
            f"cannot write {target}", why=(error.strerror or str(error)).lower()
        ) from error
