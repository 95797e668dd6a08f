"""Reads what rocprof, rocprofv2 or roctracer wrote into the records that AMD's importers share."""

from __future__ import annotations

import polars as pl

from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats import _rocm
from sightline.formats._lines import read_utf8
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.amd._rocm_csv import read_table
from sightline.formats.amd.rocprof_legacy.database import read_database
from sightline.formats.amd.rocprof_legacy.dispatches import list_counts, list_dispatches
from sightline.formats.amd.rocprof_legacy.lines import Lines
from sightline.formats.amd.rocprof_legacy.profiled import is_untimed, make_profiled
from sightline.formats.amd.rocprof_legacy.spans import split_spans
from sightline.formats.amd.rocprof_legacy.trace import read_trace


def read_records(source: Source) -> Imported:
    """Read all records. Raises DamagedError where there is none."""
    with source.open() as stream:
        head = stream.read(17)
    notes: list[Quality] = []
    lines = Lines()
    parts = []
    if head.startswith(b"SQLite format 3"):
        kernels, others = read_database(source, notes)
        parts.append(others)
    elif head.removeprefix(b"\xef\xbb\xbf").lstrip(b'"').startswith(b"Index"):
        kernels = read_table(source, notes)
    elif head.startswith(b'{ "traceEvents":'):
        kernels, others = read_trace(read_text(source, notes))
        parts.append(others)
    else:
        spans, rest = split_spans(read_utf8(source, notes))
        first = str(spans.earliest)
        told = list(rest)
        # A program prints short numbers, too: these are cut records where nothing else is printed.
        shortest = _TOLD if sum(bool(line.strip()) for line in told) > _FEW else 0
        if not any(map(str.strip, told)) and len(told) <= _FEW:
            lines.bad += len(told)  # blank lines among records alone
        for line in told:
            # Only the digits of a record's begin, of which the rest is cut off.
            is_cut = shortest < len(line) < len(first) + (not shortest) and line.isdigit()
            lines.bad += is_cut and line.startswith(first[: min(_TOLD, len(line))])
            lines.add(line)
        parts.append(spans)
        kernels = pl.DataFrame(lines.kernels, infer_schema_length=None)
    parts.append(lines.finish())
    dispatches = [part.dispatches for part in parts]
    regions = pl.concat([part.regions for part in parts])
    records = _rocm.Records(
        dispatches=pl.concat([list_dispatches(kernels), *dispatches]),
        copies=_tie_copies(pl.concat([part.copies for part in parts]), regions),
        regions=regions,
        allocations=_rocm.make_frame([], _rocm.ALLOCATION, "action", "level"),
        counts=list_counts(kernels),
        gpus={},
        threads=_rocm.make_frame([], ("pid", "tid"), "thread_name"),
    )
    if not any(f.height for f in (records.dispatches, records.copies, records.regions)):
        raise DamagedError(
            f"cannot read {source.given}",
            why="it has no complete record",
            hint="Record a timeline:  rocprofv3 --sys-trace -- PROGRAM",
        )
    notes += note_bad_lines(sum(part.bad for part in parts), "record")
    if is_untimed(kernels):
        return Imported(make_profiled(kernels), Recording("rocprof"), notes)
    return _rocm.build_tables(records, Recording("rocprof"), notes)


_FEW = 3  # ours: lines that are no records
_TOLD = 4  # digits that times of one recording have in common
# Calls that return when the copy is done (HIP, "Memory Management"): what runs in one is its own.
_BLOCKING = r"^hip(?:Memcpy(?:2D|3D|HtoD|DtoH|DtoD|WithStream)?|MemcpyToSymbol|MemcpyFromSymbol)$"


def _tie_copies(copies: pl.DataFrame, regions: pl.DataFrame) -> pl.DataFrame:
    """The copies; those without a number have that of the blocking call which they lie in.

    HSA's profiler numbers copies by itself. Only where one thread of the process makes such calls
    is it certain whose copy it is.
    """
    calls = (
        regions.filter(pl.col("name").str.contains(_BLOCKING))
        .filter((pl.col("tid").n_unique() == 1).over("pid"))
        .select("pid", "start_ns", call_end="end_ns", number="correlation_id")
        .drop_nulls()
        .sort("start_ns")
    )
    if calls.is_empty() or not copies.get_column("correlation_id").null_count():
        return copies
    inside = (
        copies.with_row_index("place")
        .sort("start_ns")
        .join_asof(calls, on="start_ns", by="pid", check_sortedness=False)
        .sort("place")
    )
    number = pl.when(pl.col("end_ns") <= pl.col("call_end")).then("number")
    tied = inside.with_columns(correlation_id=pl.coalesce("correlation_id", number))
    return tied.select(copies.columns)
