"""likwid-perfctr's output: its groups of counters, by hardware thread, over time or by region.

Text and CSV (-O) of a whole run, of marked regions (-m) and of a timeline (-t), which is on two
streams: `likwid-perfctr ... -t 1s ... > likwid.txt 2>&1`. Formats: _likwid.py. Metrics that a
watched node has, too, are called and counted as there, so that one rule reads both; a socket's are
likwid's first thread of it, and of its other threads, for which likwid writes 0, nothing. Nor is a
0 that was computed of an event which was not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import make_printable
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_no_times, read_number
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.hpc._likwid import Block, Reader, Row

IMPORTER = Importer(
    name="likwid",
    label="likwid-perfctr (text, CSV)",
    strong=(
        rb"(?:\A|\n)TABLE,(?:Region [^\n]{1,400},)?Group \d{1,4} (?:Raw|Metric)(?: STAT)?,",
        rb"(?:\A|\n)(?:Region [^\n]{1,400}, )?Group \d{1,4}: [^\s]{1,200}\r?\n\+-",
        rb"(?:\A|\n)# GID\|(?:Metrics|Event)Count\|CpuCount\|Total runtime \[s\]",
    ),
    weak=(),
    looks_like="a line such as Group 1: FLOPS_DP, TABLE,Group 1 Raw,FLOPS_DP or # GID|MetricsCount",
    suffixes=(".txt", ".csv", ".log", ".out"),
    version=2,
    source="https://github.com/RRZE-HPC/likwid/wiki/likwid-perfctr",
    in_logs=(b"\nGroup 1: ", b"TABLE,Group 1 ", b", Group 1: ", b",Group 1 Raw,", b"# GID|"),
)
_NAME = re.compile(r"(?P<name>.*?) ?(?:\[(?P<unit>[^\[\]]{1,20})\]|(?P<bare>MFLOP/s|MUOPS/s))")
_UNITS = {
    "MFLOP/s": ("flop/s", 1e6), "MUOPS/s": ("1/s", 1e6), "MBytes/s": ("bytes/s", 1e6),
    "GBytes": ("bytes", 1e9), "FLOP/Byte": ("flop/byte", 1.0),
}  # fmt: skip
_OURS = {
    ("", "flop/s"): "FLOP rate",
    ("DP", "flop/s"): "FLOP rate, double precision",
    ("SP", "flop/s"): "FLOP rate, single precision",
    ("Memory bandwidth", "bytes/s"): "memory bandwidth",
    ("IPC", ""): "instructions per cycle",
    ("Clock", "MHz"): "CPU clock",
    ("Energy", "J"): "package energy",
    ("Power", "W"): "package power",
    ("Energy DRAM", "J"): "DRAM energy",
    ("Power DRAM", "W"): "DRAM power",
}
# What counts a socket (likwid's groups MEM and ENERGY): its first thread has it all.
_OF_SOCKETS = ("Memory ", "Energy", "Power")
_UNCOUNTED = "threads have events that likwid did not count: what is 0 by them is left out"
_STARTED = "times count from the start of the measurement, and have no date"


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables and rows that are whole. Raises DamagedError where none has a value."""
    quality: list[Quality] = []
    reader = Reader()
    for line in read_text(source, quality).splitlines():
        reader.take(line)
    reader.end()
    samples = Samples()
    end = _add_rows(samples, reader.rows)
    regions = _add_blocks(samples, reader.blocks, end)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no counter of it has a value")
    uncounted = sum(len(block.uncounted) for block in reader.blocks)
    if uncounted:
        quality.append(Quality("uncounted_events", "info", _UNCOUNTED, uncounted))
    if reader.rows:
        quality.append(Quality("times_relative", "info", _STARTED))
    if reader.blocks:
        quality.append(note_no_times(0))
    quality += [*samples.note_gaps(), *note_bad_lines(reader.bad, "lines of likwid-perfctr")]
    tables = samples.tables(None)
    if regions:
        tables["host_ops"] = pl.DataFrame(
            regions, schema=["name", "start_ns", "end_ns"], orient="row"
        ).select(
            host_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
            layer=pl.lit("annotation"),
            name="name",
            start_ns="start_ns",
            end_ns="end_ns",
        )
    return Imported(tables, Recording("likwid"), quality)


def name_likwid_metric(text: str) -> tuple[str, str, float]:
    """Name and unit here of a metric of likwid's groups, and what it is multiplied by."""
    match = _NAME.fullmatch(text)
    name = match["name"] if match else text
    given = (match["unit"] or match["bare"]) if match else ""
    unit, scale = _UNITS.get(given, (given, 1.0))
    return _OURS.get((name, unit), name or text), unit, scale


def _add_rows(samples: Samples, rows: Iterable[Row]) -> int:
    """What a timeline has; when it ends, in ns."""
    last = 0
    for row in rows:
        at = round(row.time_s * 1e9)
        began = last if at > last else None
        values = [(f"CPU {cpu}", name, text) for cpu, name, text in row.values]
        _add_values(samples, _leave_out_others(values), began, at)
        last = max(at, last)
    return last


def _add_blocks(
    samples: Samples, blocks: Iterable[Block], begin: int
) -> list[tuple[str, int, int]]:
    """What tables have, one region after the other; the regions.

    Groups that took turns on the counters lie over each other; where the first comes again, another
    run begins.
    """
    found: list[tuple[str, int, int]] = []
    seen: set[tuple[str | None, int]] = set()
    spans: dict[str | None, int] = {}
    end = begin
    for block in blocks:
        if (block.region, block.number) in seen:
            seen, spans = set(), {}
        seen.add((block.region, block.number))
        lengths = {c: block.find_runtime(c) for c in block.columns}
        longest = round(1e9 * max((s for s in lengths.values() if s is not None), default=0.0))
        is_new = block.region not in spans
        start = spans.setdefault(block.region, end)
        end = max(end, start + longest)
        if is_new and block.region is not None:
            found.append((make_printable(block.region), start, start + longest))
        values = _list_values(block)
        for column, seconds in lengths.items():
            length = round(1e9 * (seconds or 0.0))
            own = [value for value in values if value[0] == _place(column)]
            _add_values(samples, own, start if length else None, start + length)
    return found


def _list_values(block: Block) -> list[tuple[str, str, str]]:
    """Where, what and the text of each value that was measured."""
    values = [
        (_place(column), _call(*key), text)
        for key, texts in block.cells.items()
        for column, text in zip(block.columns, texts, strict=True)
        if key[1] or text != "0" or column not in block.uncounted
    ]
    return _leave_out_others(values)


def _leave_out_others(values: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Without the 0 of threads that do not count their socket, where another one does."""
    of_sockets = {
        name
        for _, name, text in values
        if name.startswith(_OF_SOCKETS) and (read_number(text) or (0.0,))[0]
    }
    return [value for value in values if value[1] not in of_sockets or value[2] != "0"]


def _place(column: str) -> str:
    return column.replace("HWThread", "CPU").replace("Core", "CPU")


def _call(name: str, counter: str) -> str:
    """An event is called as on likwid's command line: events of several boxes have one name."""
    return f"{name}:{counter}" if counter and counter != "TSC" else name


def _add_values(
    samples: Samples, values: list[tuple[str, str, str]], began: int | None, at: int
) -> None:
    for place, name, text in values:
        found = read_number(text)
        if found is None:
            samples.count_odd(name, text)
            continue
        ours, unit, scale = name_likwid_metric(name)
        gpu = int(place.removeprefix("GPU ")) if place.startswith("GPU ") else None
        source = None if gpu is not None else place
        samples.add(ours, found[0] * scale, at, gpu, source, unit, began)
