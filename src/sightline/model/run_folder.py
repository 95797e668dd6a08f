"""The run folder that a recording leaves: raw recordings, and what is known of how they were made.

    NAME.sightline/
      HOST-PID.recorded.json          one per `sightline run` of the job: command, machine, costs
      rank0-HOST-PID.events           what the program marked itself: model.event_file
      rank0-HOST-PID.torch-0.json.gz  a trace of the PyTorch profiler
      rank0-HOST-PID.torch-0.events   the ranges that the trace holds too: read where it is missing
      rank0-HOST-PID.nsys.events      the same of ranges that went to nsys
      host-HOST.PID.nvml-0.events     power, clocks, memory of GPU 0 of one host
      host-HOST.cpu.perf.txt          samples of the CPU; and what nsys and ncu wrote

HOST is eight letters that stand for a host without naming it. A folder may be read at any moment,
also while it is written and after a crash; nothing in it depends on a last step. Folders of
several hosts can be read together, or copied into one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.model.event_file import SUFFIX

FORMAT = "sightline-recorded"
VERSION = 1
ENDING = ".recorded.json"
FOLDER_ENDING = ".sightline"
# The process that wrote a file, as its name begins.
_PROCESS = re.compile(r"^(?:rank(?P<rank>\d{1,6})|proc)-(?P<mark>[0-9a-f]{8})-(?P<pid>\d{1,10})")
_DEVICE = re.compile(rf"\.nvml-(\d{{1,4}}){re.escape(SUFFIX)}$")
_HOST = re.compile(r"^host-(?P<mark>[0-9a-f]{8})\.")


@dataclass(frozen=True)
class Member:
    """One recording of a run folder."""

    path: Path
    mark: str | None  # the host
    process: str | None  # the process; None for what was recorded of a whole host
    rank: int | None  # as the file's name says
    device: int | None = None  # the GPU that it is about


def is_recorded(path: Path) -> bool:
    """Whether a folder was left by a recording, and is no store."""
    if not path.is_dir() or (path / "run.json").is_file():
        return False
    return any(path.glob(f"*{ENDING}")) or any(path.glob(f"*{SUFFIX}"))


def members(folder: Path) -> list[Member]:
    """The recordings to read, in order of rank: each range once."""
    found = [_member(p) for p in sorted(folder.iterdir()) if _is_recording(p)]
    kept = [m for m in found if not _is_covered(m.path)]
    return sorted(kept, key=lambda m: (m.rank is None, m.rank or 0, m.path.name))


def _is_recording(path: Path) -> bool:
    name = path.name
    if (
        name.startswith(".")
        or name.endswith((ENDING, ".part", ".log", ".html"))
        or not path.is_file()
    ):
        return False
    if name.endswith(".perf.data"):
        return False  # what became of it is the text beside it
    # A report of nsys whose export lies beside it is the same recording.
    if name.endswith(".nsys-rep") and path.with_suffix(".sqlite").exists():
        return False
    return path.stat().st_size > 0


def _is_covered(path: Path) -> bool:
    """Whether the torch trace or the report of nsys exists that holds the file's ranges too."""
    if path.name.endswith(f".nsys{SUFFIX}"):
        mark = _PROCESS.match(path.name)
        host = "*" if mark is None else f"host-{mark['mark']}.*nsys"
        return any(next(path.parent.glob(f"{host}{e}"), None) for e in (".sqlite", ".nsys-rep"))
    if not path.name.endswith(SUFFIX) or ".torch-" not in path.name:
        return False
    trace = path.name.removesuffix(SUFFIX)
    return any((path.parent / f"{trace}{e}").exists() for e in (".json", ".json.gz"))


def _member(path: Path) -> Member:
    found = _PROCESS.match(path.name)
    if found is not None:
        rank = None if found["rank"] is None else int(found["rank"])
        return Member(path, found["mark"], f"{found['mark']}-{found['pid']}", rank)
    host = _HOST.match(path.name)
    device = _DEVICE.search(path.name)
    return Member(
        path,
        None if host is None else host["mark"],
        None,
        None,
        None if device is None else int(device[1]),
    )


def rank_in(name: str) -> int | None:
    """The rank that a file's name ends with, as in server-3.rank7.json."""
    found = re.search(r"\.rank(\d{1,6})\.", name)
    return None if found is None else int(found[1])


def make(folder: Path, *, join: bool = False) -> None:
    """Make the folder. Raises FileExistsError where it holds something and is not to be joined."""
    folder.mkdir(parents=True, exist_ok=True)
    if not join and any(folder.iterdir()):
        raise FileExistsError(17, "it exists and is not empty", str(folder))


def free_name(folder: Path) -> Path:
    """The folder's name, or with the first free number."""
    if not folder.exists():
        return folder
    base = folder.name.removesuffix(FOLDER_ENDING)
    numbers = (folder.with_name(f"{base}-{n}{FOLDER_ENDING}") for n in range(2, 10_000))
    return next(p for p in numbers if not p.exists())


def write_facts(folder: Path, name: str, facts: dict[str, Any]) -> None:
    """Put down what is known of one recording, whole or not at all."""
    document = {"format": FORMAT, "version": VERSION, **facts}
    part = folder / f".{name}.{os.getpid()}.part"
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(folder / f"{name}{ENDING}")


def read_facts(folder: Path) -> Iterator[dict[str, Any]]:
    """What is known of each recording that went into the folder; what is damaged is left out."""
    for path in sorted(folder.glob(f"*{ENDING}")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and document.get("format") == FORMAT:
            yield document
