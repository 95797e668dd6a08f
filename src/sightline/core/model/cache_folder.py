"""Where sightline keeps what it can make again: imports, answers, scratch files.

Everything lies in a folder of our own below the one that a person names: what else is in theirs
is never looked at. It is for its owner only; where it belongs to somebody else, can be written by
others, or cannot be written at all, a temporary one is used that is gone with the process.
"""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

from sightline.core.cleanup import register_cleanup
from sightline.errors import StoreError

OWN_NAME = "sightline-cache-1"  # below what SIGHTLINE_CACHE names
TEMPORARY_PREFIX = "sightline-temporary-"

_TAG = """\
Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of sightline. It can be removed at any time.
# The first line is that of bford.info/cachedir: backups leave such folders out.
"""

_instead: dict[Path, Path] = {}  # temporary folders of this process, by the one that failed


def find_cache_folder() -> Path:
    """Our folder below SIGHTLINE_CACHE, else below the user's cache; it may not be there yet."""
    own = os.environ.get("SIGHTLINE_CACHE")
    if own:
        return Path(own).absolute() / OWN_NAME
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "sightline" / OWN_NAME


def list_cache_folders() -> list[Path]:
    """Where entries may lie: the cache, if it can be trusted, and this process's temporary one."""
    folder = find_cache_folder()
    trusted = folder.is_dir() and explain_distrust(folder) is None
    return [folder] * trusted + [f for of, f in _instead.items() if of == folder]


def open_cache_folder() -> Path:
    """The folder to write to, made where it is missing; a temporary one where it cannot be used."""
    folder = find_cache_folder()
    if folder in _instead:
        return _instead[folder]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        return replace_cache_folder(error.strerror or str(error))
    distrust = explain_distrust(folder)
    if distrust is None:
        distrust = _try_to_write(folder)
    return folder if distrust is None else replace_cache_folder(distrust)


def explain_distrust(folder: Path) -> str | None:
    """Why nothing may be read from an existing cache; None where it is ours alone."""
    try:
        known = folder.lstat()
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(known.st_mode):
        return "it is not a folder"
    if hasattr(os, "getuid") and known.st_uid != os.getuid():
        return "it belongs to another user"
    if known.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others can write to it"
    return None


def _try_to_write(folder: Path) -> str | None:
    """Why nothing can be written; None where it can."""
    import tempfile  # with `random`, 5 ms to load: what only reads needs none

    try:
        tag = folder / "CACHEDIR.TAG"
        if not tag.exists():
            tag.write_text(_TAG, encoding="utf-8")
        descriptor, name = tempfile.mkstemp(prefix=".try-", dir=folder)
        os.close(descriptor)
        Path(name).unlink()
    except OSError as error:
        return error.strerror or str(error)
    return None


def replace_cache_folder(why: str) -> Path:
    """Use a temporary folder from now on, removed when the process ends, and say so once.

    Raises StoreError where nothing can be written anywhere.
    """
    folder = find_cache_folder()
    if folder not in _instead:
        import logging
        import shutil

        made = _make_temporary(why)
        _instead[folder] = made
        register_cleanup(partial(shutil.rmtree, made, ignore_errors=True))
        logging.getLogger("sightline").warning(
            "sightline: nothing is cached in %s: %s", folder, why[:1].lower() + why[1:]
        )
    return _instead[folder]


def _make_temporary(why: str) -> Path:
    """In the folder for temporary files (TMPDIR), or in memory."""
    import tempfile

    for place in (None, "/dev/shm"):  # noqa: S108 - mkdtemp makes a name that nobody can guess
        try:
            return Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=place))
        except OSError as error:
            why = f"{why}; in its place: {error.strerror or error}"
    raise StoreError(
        f"cannot write to the cache in {find_cache_folder()}",
        why=why[:1].lower() + why[1:],
        hint="Name a folder with room:  SIGHTLINE_CACHE=FOLDER sightline ...",
    )


def is_temporary(folder: Path) -> bool:
    """Whether a cache folder is one that replaces the real one in this process."""
    return folder in _instead.values()
