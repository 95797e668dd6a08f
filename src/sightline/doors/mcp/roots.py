"""Which files may be asked about: those below the allowed folders, whatever links there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.errors import InputError, RequestError
from sightline.opening.paths import expand_paths

# Entries of a folder that are looked at before it is opened; a model has no use for more files.
_MOST_ENTRIES = 100_000


def check_roots(roots: Sequence[str]) -> tuple[Path, ...]:
    """The allowed folders with their links resolved. Raises RequestError where one is none."""
    resolved = tuple(Path(root).resolve() for root in roots)
    for given, root in zip(roots, resolved, strict=True):
        if not root.is_dir():
            raise RequestError(f"{given} is not a folder", hint="sightline mcp --root FOLDER")
    return resolved


def resolve_path(given: str, roots: Sequence[Path]) -> str:
    """A path below a root, links resolved; relative ones are relative to the first root.

    Raises InputError, with the same words for what lies elsewhere and what is nowhere: nobody
    learns from them which other files there are.
    """
    refused = InputError(
        f"there is no {given[:200]} below the allowed folders",
        hint="Paths are relative to the folder that sightline mcp was started for (--root).",
    )
    if not given or "\0" in given:
        raise refused
    try:
        # Not resolved strictly before it is known to be inside, and joined without "~" or globs.
        real = Path(os.path.realpath(roots[0] / given))
        if not _is_inside(real, roots) or not real.exists():
            raise refused
    except (OSError, RuntimeError, ValueError) as error:
        raise refused from error
    if real.is_dir():
        _check_links(real, roots)
    # What is opened is more than what was named: a folder's files, the archive of an anchor.
    for name in expand_paths([str(real)]).names:
        if not _is_inside(Path(os.path.realpath(name)), roots):
            raise refused
    return str(real)


def show_path(path: str, roots: Sequence[Path]) -> str:
    """A path as it is relative to the root that it is below."""
    for root in roots:
        if Path(path).is_relative_to(root):
            return str(Path(path).relative_to(root))
    return Path(path).name


def list_files(folder: str, roots: Sequence[Path], most: int) -> list[dict[str, Any]]:
    """Files and folders in a folder below a root, by name: path, and bytes of files.

    Raises InputError, of what lies elsewhere as of what is nowhere.
    """
    refused = InputError(f"there is no folder {folder[:200]} below the allowed folders")
    if "\0" in folder:
        raise refused
    given = Path(os.path.realpath(roots[0] / folder))
    if not _is_inside(given, roots) or not given.is_dir():
        raise refused
    rows: list[dict[str, Any]] = []
    for path in sorted(given.iterdir()):
        real = Path(os.path.realpath(path))
        if path.name.startswith(".") or not _is_inside(real, roots) or not real.exists():
            continue
        size = None if real.is_dir() else real.stat().st_size
        name = show_path(str(path), roots) + ("/" if size is None else "")
        rows.append({"path": name, "bytes": size})
        if len(rows) == most:
            break
    return rows


def _is_inside(path: Path, roots: Sequence[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _check_links(folder: Path, roots: Sequence[Path]) -> None:
    """That no link in a folder leads out of the roots. Raises InputError."""
    count = 0
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            count += 1
            path = Path(at) / name
            if count > _MOST_ENTRIES:
                raise InputError(f"{folder.name} has more than {_MOST_ENTRIES:,} entries")
            if path.is_symlink() and not _is_inside(Path(os.path.realpath(path)), roots):
                raise InputError(
                    f"{folder.name} has a link that leads out of the allowed folders",
                    hint="Name the recordings in it one by one.",
                )
