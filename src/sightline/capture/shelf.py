"""Where a node keeps its captures: a folder for each, the oldest of which goes when room is needed.

ID/state.json     what the capture is and became; and which files it left in programs' folders
ID/run.sightline/ the traces, as a run folder
ID/ranks          what other nodes need of these ranks (fleet.rank_file)
ID/fingerprint    the node's run, as `sightline fingerprint` writes it
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sightline.core.whole_file import write_whole
from sightline.errors import InputError, RequestError

STATE, RUN, RANKS, FINGERPRINT = "state.json", "run.sightline", "ranks", "fingerprint"
_NAME = re.compile(r"[0-9a-f]{16}")
# Below so much free room a trace might fill the disk for everybody: PyTorch's trace of 10 s of one
# rank with shapes has some 100 MB, and a node has eight.
LEAST_FREE = 1 << 30


class Shelf:
    """The captures of one daemon. Raises RequestError where its folder cannot be used."""

    def __init__(self, folder: Path, most_bytes: int, most: int, least_free: int = LEAST_FREE):
        self.folder, self._most_bytes, self._most = folder, most_bytes, most
        self.least_free = least_free
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            state = folder.stat()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise RequestError(f"cannot keep captures in {folder}", why=why) from error
        if state.st_uid != os.geteuid():
            raise RequestError(f"cannot keep captures in {folder}", why="it is another user's")

    def make(self, name: str) -> Path:
        """A folder for a new capture, after older ones made room. Raises InputError."""
        self.make_room()
        place = self.folder / name
        try:
            free = shutil.disk_usage(self.folder).free
            if free < self.least_free:
                raise InputError(
                    "there is no room for a capture",
                    why=f"the disk of {self.folder} has {free >> 20:,} MiB left, "
                    f"of {self.least_free >> 20:,} that must be",
                )
            place.mkdir(mode=0o700)
            (place / RUN).mkdir(mode=0o700)
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            why = (error.strerror or str(error)).lower()
            raise InputError(f"cannot keep a capture in {self.folder}", why=why) from error
        return place

    def make_room(self) -> None:
        """Remove the oldest until there are one fewer than allowed, within the bytes allowed."""
        kept = self.list_folders()
        sizes = {folder: measure_folder(folder) for folder in kept}
        while kept and (len(kept) >= self._most or sum(sizes.values()) > self._most_bytes):
            oldest = kept.pop(0)
            del sizes[oldest]
            shutil.rmtree(oldest, ignore_errors=True)

    def list_folders(self) -> list[Path]:
        """All captures, the oldest first."""
        found = [p for p in self.folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir()]
        return sorted(found, key=lambda p: (p.stat().st_ctime_ns, p.name))

    def find(self, name: str) -> Path | None:
        """The folder of a capture."""
        place = self.folder / name
        return place if _NAME.fullmatch(name) and place.is_dir() else None

    def read_states(self) -> Iterator[dict[str, Any]]:
        """What each capture became, the oldest first; what is damaged is left out."""
        for folder in self.list_folders():
            if (state := read_state(folder)) is not None:
                yield state


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Put down what a capture is. Raises OSError."""
    write_whole(folder / STATE, (json.dumps(state, indent=1) + "\n").encode())


def read_state(folder: Path) -> dict[str, Any] | None:
    """What was put down; None where nothing whole was."""
    try:
        told = json.loads((folder / STATE).read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def measure_folder(folder: Path) -> int:
    """Bytes of all files in it."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file())
