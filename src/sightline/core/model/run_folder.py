"""The run folder that a recording leaves: raw recordings, and what is known of how they were made.

    NAME.sightline/
      HOST-PID.recorded.json          one per `sightline run` of the job: command, machine, costs
      rank0-HOST-PID.events           what the program marked itself: model.event_file
      rank0-HOST-PID.torch-0.json.gz  a trace of the PyTorch profiler
      rank0-HOST-PID.torch-0.events   the ranges that the trace holds too: read where it is missing
      rank0-HOST-PID.nsys.events      the same of ranges that went to nsys
      host-HOST.PID.nvml-0.events     power, clocks, memory of GPU 0 of one host
      host-HOST.cpu.perf.txt          samples of the CPU; and what nsys and ncu wrote
      host-HOST.PID.cpu.speedscope.json, host-HOST.PID.wall.speedscope.json
                                      py-spy's samples of Python: of threads that run, and of all
      host-HOST.PID.sched.perf.txt    events of the kernel, as perf prints them
      host-HOST.PID.lttng/            traces of LTTng
      NODE.ranks                      ranks reduced where they ran (sightline ranks reads these)
      sightline-PID.log               what sightline said and nobody was there to be told

HOST is eight letters that stand for a host without naming it. A folder may be read at any moment,
also while it is written and after a crash; nothing in it depends on a last step. Folders of
several hosts can be read together, or copied into one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sightline.core.model.event_file import SUFFIX

FORMAT = "sightline-recorded"
STOPPING = ".stopping-"  # how a file's name begins that is there while a profiler stops and writes
WALL_TIME = "threads that wait, too"  # the name of a speedscope profile that has them
VERSION = 1
ENDING = ".recorded.json"
RANKS_ENDING = ".ranks"
MAX_FACTS_BYTES = 64 << 20  # a thousand times what a recording of a large job writes
FOLDER_ENDING = ".sightline"


def is_recorded(path: Path) -> bool:
    """Whether a folder was left by a recording, and is not a store."""
    if not path.is_dir() or (path / "run.json").is_file():
        return False
    return any(path.glob(f"*{ENDING}")) or any(path.glob(f"*{SUFFIX}"))


def make_folder(folder: Path, *, join: bool = False) -> None:
    """Make the folder. Raises FileExistsError where it holds something and is not to be joined."""
    folder.mkdir(parents=True, exist_ok=True)
    if not join and any(folder.iterdir()):
        raise FileExistsError(17, "it exists and is not empty", str(folder))


def find_free_name(folder: Path) -> Path:
    """The folder's name, or with the first free number."""
    if not folder.exists():
        return folder
    base = folder.name.removesuffix(FOLDER_ENDING)
    numbers = (folder.with_name(f"{base}-{n}{FOLDER_ENDING}") for n in range(2, 10_000))
    return next(p for p in numbers if not p.exists())


def make_free_folder(folder: Path) -> Path:
    """Make the folder, or that with the first free number: of two at one time each has its own."""
    while True:
        free = find_free_name(folder)
        try:
            free.mkdir(parents=True)
        except FileExistsError:  # another took the name meanwhile
            continue
        return free


def write_facts(folder: Path, name: str, facts: dict[str, Any]) -> None:
    """Put down what is known of one recording, whole or not at all."""
    document = {"format": FORMAT, "version": VERSION, **facts}
    part = folder / f".{name}.{os.getpid()}.part"
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(folder / f"{name}{ENDING}")


def read_facts(folder: Path) -> Iterator[dict[str, Any]]:
    """What is known of each recording that went into the folder; what is damaged is left out."""
    for path in sorted(folder.glob(f"*{ENDING}")):
        if not path.is_file() or path.stat().st_size > MAX_FACTS_BYTES:
            continue  # reading a pipe of that name would wait for ever
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(document, dict) and document.get("format") == FORMAT:
            yield document
