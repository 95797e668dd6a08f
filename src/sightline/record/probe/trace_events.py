"""Probes of many functions as one event of the kernel's tracing, so that they are removed at once.

A probe that is a perf event of its own is removed alone, and once for each processor: 0.09 s each
time, as the kernel waits until nobody can be in it (Linux 6.18), one after the other; 262 functions
on 16 processors were 12 minutes. All places of one event are removed with it, after one such wait.

An event is made by a line in `uprobe_events` of tracefs for each place (Linux,
Documentation/trace/uprobetracer.rst), several places of one event from 5.4 on ("tracing/uprobe: Add
multi-probe per uprobe event support"). It stays when its maker is killed, though without probes:
the next one removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

# Where tracefs is mounted, and was before 4.1 (Documentation/trace/ftrace.rst).
_PLACES = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
_EVENTS = "uprobe_events"
_GROUP = "sightline_probe_"
# Events of entries have one address, those of returns two: with this they are as long.
_SECOND = "same=$stack:u64"


def find_tracefs() -> Path | None:
    """The folder of tracefs, where this kernel has uprobes; None where there is none to be seen."""
    return next((p for p in _PLACES if os.access(p / _EVENTS, os.F_OK)), None)


def define_event(
    folder: Path, name: str, path: str, offsets: Iterable[int], *, is_return: bool
) -> int:
    """Make an event of all these places in a file; its number for perf. Raises OSError."""
    group = f"{_GROUP}{os.getpid()}"
    for offset in offsets:
        more = "" if is_return else f" {_SECOND}"
        _write(folder, f"{'r' if is_return else 'p'}:{group}/{name} {path}:{offset:#x}{more}")
    return int((folder / "events" / group / name / "id").read_text())


def remove_event(folder: Path, name: str) -> None:
    """Remove an event whose perf events are closed; nothing where it was not made."""
    with contextlib.suppress(OSError):
        _write(folder, f"-:{_GROUP}{os.getpid()}/{name}")


def remove_stale(folder: Path) -> None:
    """Remove the events of processes that have ended without doing so."""
    with contextlib.suppress(OSError):
        text = (folder / _EVENTS).read_text()
        events = set(re.findall(rf"^[pr]:({_GROUP}(\d+)/\w+) ", text, re.MULTILINE))
        for event, pid in events:
            if not Path("/proc", pid).exists():
                _write(folder, f"-:{event}")


def _write(folder: Path, line: str) -> None:
    """Add a line: what truncates the file would remove the events of all others."""
    number = os.open(folder / _EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(number, line.encode() + b"\n")
    finally:
        os.close(number)
