"""Recordings that come through a pipe: kept in a file of the cache's folder while the process runs.

What a recording is, its end tells as well as its beginning, and a database is read back and forth:
a stream is written down first, a block at a time, so memory stays flat however long it is.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.errors import SightlineError

STANDARD_INPUT = "-"
_BLOCK_BYTES = 1 << 20
WAIT_S = 10.0  # for somebody to write into a named pipe
_READ_FROM = ("recordings", "jobs", "before", "after")  # arguments that name recordings


def keep_streams(parsed: argparse.Namespace) -> dict[str, str]:
    """Have each recording that is a pipe written down, and put the file's path in its place.

    Pipes are standard input (`-`), named pipes and process substitutions. The dictionary has what
    was typed by the file's path; the files are gone when the process ends. Raises InputError where
    nothing is piped in, or the disk has no room for it.
    """
    files: dict[str, str] = {}
    for name in _READ_FROM:
        given = getattr(parsed, name, None)
        texts = [given] if isinstance(given, str) else given or []
        for text in dict.fromkeys(filter(_is_stream, texts)):
            if text not in files.values():
                files[str(_keep_stream(text))] = text
        by_text = {text: path for path, text in files.items()}
        taken = [by_text.get(text, text) for text in texts]
        if taken != texts:
            setattr(parsed, name, taken[0] if isinstance(given, str) else taken)
    return files


def name_streams(error: SightlineError, files: dict[str, str]) -> None:
    """Have an error say what was typed in place of the paths of the files that hold it."""
    for path, given in files.items():
        error.what = error.what.replace(path, _name(given))
        error.why = error.why and error.why.replace(path, _name(given))


def _is_stream(text: str) -> bool:
    if text == STANDARD_INPUT:
        return True
    try:
        return stat.S_ISFIFO(os.stat(text).st_mode)  # noqa: PTH116  # pathlib: see command_names
    except (OSError, ValueError):
        return False


def _keep_stream(given: str) -> Path:
    import atexit
    import shutil
    from pathlib import Path

    from sightline.core.model.cache_folder import open_cache_folder
    from sightline.errors import InputError
    from sightline.opening.scratch import make_scratch, remove_scratch

    if given == STANDARD_INPUT and sys.stdin.isatty():
        raise InputError(
            "nothing comes through standard input",
            why="it is the terminal",
            hint="Pipe a recording into it:  zstdcat trace.json.zst | sightline -",
        )
    try:
        work = make_scratch(open_cache_folder())
        atexit.register(remove_scratch, work)
        path = work / ("standard-input" if given == STANDARD_INPUT else Path(given).name)
        with _open(given) as stream, path.open("xb") as file:
            shutil.copyfileobj(stream, file, _BLOCK_BYTES)
    except OSError as error:
        raise InputError(
            f"cannot keep what comes through {_name(given)}",
            why=(error.strerror or str(error)).lower(),
            hint="It is first written to the cache folder. Name one with room:  ... | "
            "SIGHTLINE_CACHE=FOLDER sightline -",
        ) from error
    return path


def _open(given: str) -> BinaryIO:
    from sightline.errors import InputError

    if given == STANDARD_INPUT:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    # Opened without waiting: a pipe that nobody writes into would be waited for without end.
    pipe = os.open(given, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not _wait_for_writer(pipe):
            raise InputError(
                f"nothing comes through {given}",
                why=f"nothing has been written into this pipe for {WAIT_S:g} s",
                hint="Start what writes into it first.",
            )
        os.set_blocking(pipe, True)
    except BaseException:
        os.close(pipe)
        raise
    return os.fdopen(pipe, "rb")


def _wait_for_writer(pipe: int) -> bool:
    import select

    waiting = select.poll()
    waiting.register(pipe, select.POLLIN | select.POLLHUP)
    return bool(waiting.poll(1000 * WAIT_S))


def _name(given: str) -> str:
    return "standard input" if given == STANDARD_INPUT else given
