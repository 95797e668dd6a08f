"""Files and stores for what a person typed: paths, folders, globs."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from sightline.core.model.run_folder import is_recorded
from sightline.core.model.source import Source
from sightline.core.model.store import is_store
from sightline.core.text import make_printable
from sightline.core.units import format_several
from sightline.errors import InputError
from sightline.opening.recognise import (
    drop_superseded,
    find_folders,
    list_importers,
    match_importers,
    match_patterns,
)

T = TypeVar("T")

# PyTorch ends the names of its flight recorder's dumps in the rank: nccl_trace_rank_0, _dump_0.
_NUMBERED = re.compile(r"^[^.]*[_-]\d{1,6}$")
_TEXTS = (".txt", ".log", ".out")  # endings of some recordings, and of most that is none


Look = Callable[[str, int, int], None]  # what is looked at, how many so far, how many in all or 0
_LOOK_EVERY = 256  # entries: a look costs a microsecond, an entry ten
_MOST_NAMED = 3


class Looking(str):
    """What a progress is about that counts entries of folders, and not bytes of a file."""

    __slots__ = ()


class OneOfMany(str):
    """What a progress is about that is one of many recordings, with its number."""

    __slots__ = ()


@dataclass(frozen=True)
class Expanded:
    """Files and stores to read, those of them that a folder gave, and what lies beside them."""

    names: list[str]
    in_folders: set[str]
    skipped: list[tuple[str, list[str]]]


def expand_paths(paths: Sequence[str], look: Look | None = None) -> Expanded:
    """Files and stores for what a person typed; a folder gives the recordings in it.

    `look` is told of folders (`Looking`) while they are looked through.
    """
    found: list[str] = []
    in_folders: set[str] = set()
    skipped: list[tuple[str, list[str]]] = []
    for given in paths:
        path = Path(given)
        if is_store(path) or path.is_file() or is_recorded(path):
            whole = find_whole(path) if path.is_file() else None
            found.append(given if whole is None else str(whole))
        elif path.is_dir():
            try:
                if match_importers(Source(path, given), "strong"):
                    found.append(given)
                    continue
                recordings, others = list_folder(path, given, look)
            except OSError as error:  # may not be read, or vanished while it was looked through
                at = f" ({error.filename})" if error.filename else ""
                why = (error.strerror or str(error)).lower() + at
                raise InputError(f"cannot read {given}", why=why) from error
            found += recordings
            in_folders.update(recordings)
            skipped += [(given, others)] if others else []
        elif path.exists():
            raise InputError(f"cannot read {given}", why="it is neither a file nor a folder")
        elif glob.has_magic(given):
            matches = sorted(glob.glob(given, recursive=True))
            if not matches:
                raise InputError(f"no file matches {given}")
            inside = expand_paths(matches, look)
            found += inside.names
            in_folders |= inside.in_folders
            skipped += inside.skipped
        else:
            raise InputError(
                f"cannot read {given}",
                why=f"it links to {path.readlink()}, which is not there"
                if path.is_symlink()
                else "there is no such file",
                hint="Give the path of a recording, a folder of recordings, or a .sightline store.",
            )
    seen: dict[Path, str] = {}
    for given in found:
        seen.setdefault(Path(given).resolve(), given)
    return Expanded(list(seen.values()), in_folders, skipped)


def find_whole(path: Path) -> Path | None:
    """The folder that a file stands for, as an archive's anchor does; None for a file by itself."""
    folder = path.parent
    asked = [i for i in list_importers() if any(fnmatch(path.name, name) for name in i.anchors)]
    if not asked:
        return None
    try:
        found = match_importers(Source(folder, str(folder)), "strong")
    except (InputError, OSError):  # the file is what may be read
        return None
    return folder if any(importer in found for importer in asked) else None


def list_folder(folder: Path, given: str, look: Look | None) -> tuple[list[str], list[str]]:
    """Recordings in a folder, sorted so that rank 10 follows rank 9, and the names of other files.

    Files with a known ending, or a number for one, whose content some importer is sure of; endings
    such as .json and .csv are everybody's. Where it is sure of none, all with a known ending but
    plain texts, so that the error says what is wrong with them.
    """
    suffixes = tuple(s for importer in list_importers() for s in importer.suffixes)
    try:
        found = _watch(folder.rglob("*"), f"listing {given}", look)
        entries = sorted(found, key=lambda p: _sort_naturally(str(p)))
    except OSError as error:
        raise InputError(f"cannot read {given}", why=(error.strerror or "").lower()) from error
    importers = list(list_importers())
    asked = _watch(importers, f"asking what reads folders in {given}", look, len(importers), 1)
    folders = [p for importer in asked for p in find_folders(importer, folder)]
    inside = {p for f in folders for p in [f, *f.rglob("*")]}
    stores = [
        p
        for p in _watch(entries, f"looking for recordings in {given}", look, len(entries))
        if p not in inside and p.is_dir() and (is_store(p) or is_recorded(p) or _is_recording(p))
    ]
    inside |= {p for s in stores for p in [s, *s.rglob("*")]}
    stores += folders
    outside = [p for p in entries if p.is_file() and p not in inside]
    files = drop_superseded([p for p in outside if p.name.lower().endswith(suffixes)])
    known = set(files)
    sure = [
        p
        for p in _watch(outside, f"looking into files of {given}", look, len(outside), 16)
        if (p in known or _NUMBERED.search(p.name)) and _is_sure(p, p in known)
    ]
    unsure = [p for p in files if not p.name.lower().endswith(_TEXTS)] if not stores else []
    recordings = [str(p) for p in [*stores, *(sure or unsure)]]
    if not recordings and (empty := list_empty(folder)):
        raise InputError(
            f"there are no recordings in {given}",
            why=f"{name_files(empty)} empty: what recorded it wrote nothing, or was cut off",
            hint="Record again, and let the program and its profiler end.",
        )
    if not recordings:
        raise InputError(
            f"there are no recordings in {given}",
            why=_say_endings([p for p in entries if p.is_file()]),
            hint="Name the file itself if its ending is unusual.  sightline formats  lists the "
            "usual ones.",
        )
    taken = {*map(Path, recordings), *inside}
    others = [p for p in entries if p not in taken and p.is_file() and not p.name.startswith(".")]
    return recordings, [str(p.relative_to(folder)) for p in others]


def _say_endings(files: list[Path]) -> str:
    """That none of a folder's files is taken for a recording, with the names of some."""
    if not files:
        return "it is empty: no file is in it or in what it holds"
    named = ", ".join(make_printable(path.name) for path in files[:_MOST_NAMED])
    more = ", ..." if len(files) > _MOST_NAMED else ""
    of = "its only file" if len(files) == 1 else f"none of its {format_several(len(files), 'file')}"
    has = "has no ending" if len(files) == 1 else "has an ending"
    return f"{of} {has} that recordings have ({named}{more})"


def _watch(
    items: Iterable[T], what: str, look: Look | None, count: int = 0, every: int = _LOOK_EVERY
) -> Iterator[T]:
    """The items; `look` is told how many have passed."""
    for number, item in enumerate(items):
        if look is not None and number % every == 0:
            look(Looking(what), number, count)
        yield item


def list_empty(folder: Path) -> list[str]:
    """The names of the files in a folder that have no content."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.stat().st_size)
    return sorted(str(path.relative_to(folder)) for path in files)


def name_files(names: Sequence[str]) -> str:
    """Some files and their verb: `a and b are`."""
    shown = [*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else [])]
    return " and ".join(shown) + (" is" if len(names) == 1 else " are")


def _is_sure(path: Path, is_known: bool) -> bool:
    """Whether an importer is sure of the content; one without an ending may be unreadable."""
    try:
        return bool(match_importers(Source(path, str(path)), "strong"))
    except InputError:
        if is_known:
            raise
        return False


def _is_recording(path: Path) -> bool:
    """Whether it is a folder that is one recording, as a workload of rocprof-compute is."""
    return path.is_dir() and bool(match_patterns(Source(path, str(path)), "strong"))


def _sort_naturally(text: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdecimal() else (-1, p) for p in re.split(r"(\d+)", text)]
