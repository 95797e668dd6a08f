"""What is tidied up in a run folder once its program has ended. None of it is needed to read it."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sightline.core.model import event_file as f

COMPRESS_ABOVE = 8 << 20  # a smaller trace opens faster than it is unpacked
_LEVEL = 1


def finish_files(folder: Path, mark: str, child: int) -> None:
    """Cut event files to their length, compress large traces, remove what was never finished.

    Only files of this host's processes that have ended, and what watched the program `child`: a
    file that another process writes to must not be cut. A full disk leaves everything as it is.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            name = path.name
            of_program = f"-{mark}-" in name and not _writes(path)
            if name.endswith(f.SUFFIX) and (of_program or f"host-{mark}.{child}." in name):
                trim_trace(path)
            elif name.startswith(".part-") and f"-{mark}-" in name:
                if not _alive(name.split("-")[1]):
                    path.unlink()
            elif of_program and _is_large(path):
                compress_trace(path)
            elif name.endswith(".log") and not path.stat().st_size:
                path.unlink()


@dataclass(frozen=True)
class Large:
    """Files that are compressed at the end, and how many bytes they have in all."""

    paths: tuple[Path, ...]
    bytes: int

    def measure_done(self) -> int:
        """The bytes of those that are done, and are no longer there."""
        left = 0
        for path in self.paths:
            with contextlib.suppress(OSError):
                left += path.stat().st_size
        return self.bytes - left


def measure_large(folder: Path, mark: str) -> Large:
    """What `finish_files` is going to compress."""
    sizes = {}
    for path in folder.glob(f"*-{mark}-*"):
        with contextlib.suppress(OSError):
            if _is_large(path):
                sizes[path] = path.stat().st_size
    return Large(tuple(sizes), sum(sizes.values()))


def _is_large(path: Path) -> bool:
    return path.name.endswith((".json", ".cupti")) and path.stat().st_size > COMPRESS_ABOVE


def trim_trace(path: Path) -> None:
    """Cut the zeros behind an event file's last slot."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        used = 0
        for start in range(max(size - 1, 0) // f.CHUNK * f.CHUNK, -1, -f.CHUNK):
            file.seek(start)
            text = file.read(f.CHUNK).rstrip(b"\0")
            if text:
                used = start + len(text)
                break
        slots = max(-(-used // f.SLOT), f.FIRST_EVENT)
        file.seek(f.WRITTEN_AT)
        known = file.read(f.WRITTEN.size)
        if len(known) == f.WRITTEN.size and f.WRITTEN.unpack(known)[0] != slots:
            # First the word, then the cut: killed in between, the file only looks too long.
            file.seek(f.WRITTEN_AT)
            file.write(f.WRITTEN.pack(slots))
            file.flush()
        file.truncate(slots * f.SLOT)


def compress_trace(path: Path) -> None:
    """Put NAME.gz in the place of NAME, whole or not at all."""
    part = path.with_name(f".{path.name}.gz.part")
    try:
        with path.open("rb") as plain, gzip.open(part, "wb", compresslevel=_LEVEL) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
        part.replace(path.with_name(f"{path.name}.gz"))
        path.unlink()
    finally:
        part.unlink(missing_ok=True)


def remove_maps(paths: Iterable[Path]) -> None:
    """Remove what Python wrote of its functions because sightline had it do so: /tmp/perf-PID.map.

    Only our own files; what other tools are to read after a run of their own is not touched.
    """
    for path in paths:
        with contextlib.suppress(OSError):
            state = path.lstat()
            if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid():
                path.unlink()


def _writes(path: Path) -> bool:
    """Whether the process that the file is of still runs, on this host."""
    stem = path.name.split(".")[0].split("-")
    return len(stem) < 3 or _alive(stem[2])


def _alive(pid: str) -> bool:
    return pid.isdigit() and int(pid) != os.getpid() and Path(f"/proc/{pid}").exists()
