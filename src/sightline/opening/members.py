"""The recordings in a run folder (model/run_folder.py): each file's process, each range once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sightline.core import registry
from sightline.core.model.declare import Importer
from sightline.core.model.event_file import SUFFIX
from sightline.core.model.run_folder import ENDING, RANKS_ENDING
from sightline.opening.recognise import drop_superseded, find_folders, list_importers

# The process that wrote a file, as its name begins.
_PROCESS = re.compile(r"^(?:rank(?P<rank>\d{1,6})|proc)-(?P<mark>[0-9a-f]{8})-(?P<pid>\d{1,10})")
_DEVICE = re.compile(rf"\.nvml-(\d{{1,4}}){re.escape(SUFFIX)}$")
_HOST = re.compile(r"^host-(?P<mark>[0-9a-f]{8})\.")


@dataclass(frozen=True)
class FolderFile:
    """One recording of a run folder."""

    path: Path
    mark: str | None  # the host
    process: str | None  # the process; None for what was recorded of a whole host
    rank: int | None  # as the file's name says
    device: int | None = None  # the GPU that it is about


def list_members(folder: Path) -> list[FolderFile]:
    """The recordings to read, in order of rank: each range once."""
    files = drop_superseded([p for p in sorted(folder.iterdir()) if _is_recording(p)])
    kept = [_member(p, p.name) for p in files if not _is_covered(p)]
    # Recordings that are folders lie in one of their own: LTTng's, of the kernel and user space.
    inner = [p for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    kept += [
        _member(found, place.name)
        for place in inner
        for importer in list_importers()
        for found in find_folders(importer, place)
    ]
    return sorted(kept, key=lambda m: (m.rank is None, m.rank or 0, m.path.name))


def _is_recording(path: Path) -> bool:
    name = path.name
    if (
        name.startswith(".")
        or name.endswith((ENDING, RANKS_ENDING, ".part", ".log", ".html"))
        or not path.is_file()
    ):
        return False
    if name.endswith(".perf.data") and path.with_suffix(".txt").exists():
        return False  # what became of it is the text beside it
    return path.stat().st_size > 0


def _is_covered(path: Path) -> bool:
    """Whether the torch trace or the report of nsys exists that holds the file's ranges too."""
    if path.name.endswith(f".nsys{SUFFIX}"):
        mark = _PROCESS.match(path.name)
        reports = ["*"]
        if mark is not None:  # around the whole program, or around this process
            reports = [f"host-{mark['mark']}.*nsys", f"*-{mark['mark']}-{mark['pid']}.nsys*"]
        ends = _endings_of("nsys")
        return any(next(path.parent.glob(f"{r}{e}"), None) for r in reports for e in ends)
    if not path.name.endswith(SUFFIX) or ".torch-" not in path.name:
        return False
    trace = path.name.removesuffix(SUFFIX)
    return any((path.parent / f"{trace}{e}").exists() for e in _endings_of("kineto"))


def _endings_of(importer: str) -> tuple[str, ...]:
    """The endings of files that an importer reads, or whose reading it saves."""
    declared: Importer = registry.load("importers", importer).IMPORTER
    return (*declared.suffixes, *declared.supersedes)


def _member(path: Path, name: str) -> FolderFile:
    """What the name of a recording, or of the folder that it lies in, says of it."""
    found = _PROCESS.match(name)
    if found is not None:
        rank = None if found["rank"] is None else int(found["rank"])
        return FolderFile(path, found["mark"], f"{found['mark']}-{found['pid']}", rank)
    host = _HOST.match(name)
    device = _DEVICE.search(name)
    return FolderFile(
        path,
        None if host is None else host["mark"],
        None,
        None,
        None if device is None else int(device[1]),
    )


def read_rank(name: str) -> int | None:
    """The rank that a file's name ends with, as in server-3.rank7.json."""
    found = re.search(r"\.rank(\d{1,6})\.", name)
    return None if found is None else int(found[1])
