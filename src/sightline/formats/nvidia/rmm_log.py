"""RMM's event log: a line for each allocation and free that RAPIDS' memory resources made.

A line has thread, time of day, action, address, size and stream:
`1979932,14:21:19.998533,allocate,0x30a000000,256,0x2`. The header is written once, or not at all
where the log goes to a stream. Older releases have a colon before the microseconds. The file's name
says which device it is of: NAME.dev0.csv.
"""

from __future__ import annotations

import re

import polars as pl

from sightline._native import Ledger
from sightline.core.algebra.arrow import pack_numbers, unpack_columns
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import INT64_MAX, wrap_address
from sightline.errors import DamagedError
from sightline.formats._memory_ledger import note_lost_events
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import note_blank_lines

IMPORTER = Importer(
    name="rmm_log",
    label="RMM event log (CSV)",
    strong=(
        rb"^Thread,Time,Action,Pointer,Size,Stream\r?\n",
        rb"^\d+,\d+:\d\d:\d\d[:.]\d+,(?:allocate|free|allocate failure),(?:0x)?[0-9a-fA-F]+,\d+,",
    ),
    weak=(),
    looks_like="CSV with the columns Thread,Time,Action,Pointer,Size,Stream",
    suffixes=(".csv", ".dev0", ".dev1", ".dev2", ".dev3", ".dev4", ".dev5", ".dev6", ".dev7"),
    version=5,
    source="https://docs.rapids.ai/api/rmm/stable/user_guide/logging/",
)

_LINE = re.compile(
    r"(\d+),(\d+):(\d\d):(\d\d)[:.](\d{1,6}),"
    r"(allocate|free|deallocate|allocate failure),([^,]*),(\d+),([^,]*)$"
)
_ACTIONS = {"allocate": "alloc", "free": "free", "deallocate": "free", "allocate failure": "oom"}
_LEDGER = {"alloc": 0, "free": 2, "oom": 5}  # native/passes/ledger.h
_DAY_NS = 24 * 3600 * 10**9


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    rows: list[tuple[int, str, int | None, int, int | None, int | None]] = []
    bad, days, last = 0, 0, 0
    text = read_text(source, quality)
    quality += note_blank_lines(text.rstrip())
    for line in text.splitlines():
        found = _LINE.match(line.strip())
        if found is None:
            bad += bool(line.strip()) and not line.startswith("Thread,")
            continue
        thread, hour, minute, second, part, action, address, size, stream = found.groups()
        at = ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 10**9
        at += int(part.ljust(6, "0")) * 1000
        # The log has no date. Threads write a little out of order; half a day back is midnight.
        days += at < last - _DAY_NS // 2
        last = at
        count = _parse(size)
        if count is None:
            bad += 1
            continue
        place, tid, of = _parse_address(address), _parse(thread), _parse_address(stream)
        rows.append((at + days * _DAY_NS, _ACTIONS[action], place, count, tid, of))
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    schema = ["time_ns", "action", "address", "bytes", "tid", "stream_id"]
    device = re.search(r"\.dev(\d{1,4})\b", source.path.name)
    frame = pl.DataFrame(
        rows, schema=dict.fromkeys(schema, pl.Int64) | {"action": pl.String}, orient="row"
    ).with_columns(device_id=pl.lit(int(device[1]) if device else 0, pl.Int64))
    quality += note_bad_lines(bad, "events of RMM")
    recording = Recording(tool="RMM", clock_offset_ns=0)
    summed, lost = _add_sums(frame)
    return Imported({"memory_events": summed}, recording, quality + lost)


def _parse(text: str) -> int | None:
    """A number of 63 bits, as the log has it; None for other texts."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if 0 <= value <= INT64_MAX else None


def _parse_address(text: str) -> int | None:
    """A pointer, or None for (nil)."""
    try:
        return wrap_address(int(text, 16))
    except ValueError:
        return None


def _add_sums(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[Quality]]:
    """The events with what is allocated after each, from 0 at the first; and what is lost."""
    code = pl.col("action").replace_strict(_LEDGER, return_dtype=pl.Int64)
    ledger = Ledger(keeps_blocks=False)
    steps = frame.select("device_id", code, "address", "bytes")
    sums = unpack_columns(ledger.add(pack_numbers(steps)))
    summed = frame.with_columns(
        allocated_bytes=sums.get_column("allocated"),
        active_bytes=sums.get_column("active"),
        memory_kind=pl.lit("device"),
    )
    return summed, note_lost_events(ledger)
