"""Feeds the compiled reader, and makes the declared tables of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from sightline._native import PerfettoTrace
from sightline.core.algebra.arrow import unpack_columns
from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.core.model.source import Source, read_intact
from sightline.core.units import format_note
from sightline.errors import DamagedError
from sightline.formats.system.perfetto import counters, device, system
from sightline.formats.system.perfetto.clocks import Clocks
from sightline.formats.system.perfetto.slices import close_slices, name_layers, read_prints
from sightline.formats.system.perfetto.tracks import resolve_tracks

if TYPE_CHECKING:
    from sightline._native import CountedPackets

_PIECE = 1 << 20
# A file may unpack to any size: what claims far more than real traces do is not read further. Real
# ones pack 5 to 20 times (zlib's limit is 1032), and an event takes 10 bytes and more unpacked.
_UNPACKED_BYTES, _UNPACKED_PER_BYTE = 1 << 30, 100
_ROWS, _ROWS_PER_BYTE = 1 << 20, 8
# Columns that hold texts by their code, by table.
_TEXTS = {
    "tracks": ("name", "process_name", "thread_name", "unit_name"),
    "events": ("name", "category", "arguments"),
    "stages": ("queue", "stage", "name", "kernel", "mangled", "arguments"),
    "gpu_counters": ("name",),
    "prints": ("text",),
    "memory": ("name",),
    "resident": ("name",),
    "processes": ("name",),
    "threads": ("name",),
    "gpus": ("name", "vendor", "architecture"),
    "frames": ("function", "file", "module"),
}
_TIMED = (
    *("events", "stages", "gpu_counters", "samples", "switches", "prints", "frequencies"),
    *("memory", "resident"),
)
_TABLES = (
    *_TIMED,
    *("clocks", "tracks", "flows", "links", "processes", "threads", "gpus", "frames", "stacks"),
)


def read_trace(
    source: Source, options: ImportOptions, *, unpacked_bytes: int = _UNPACKED_BYTES
) -> Imported:
    """The tables of one trace, of which a small file may unpack to so many bytes.

    Raises DamagedError where it says nothing.
    """
    notes: list[Quality] = []
    trace = _feed(source, notes, unpacked_bytes)
    counted = trace.counted()
    texts = _decode(unpack_columns(trace.texts()).to_series())
    raw = {name: _take(trace, name, texts) for name in _TABLES}
    notes += _check_packets(counted)
    clocks = Clocks(raw["clocks"])
    unplaced = 0
    for name in _TIMED:
        raw[name], lost = clocks.place(raw[name])
        unplaced += lost
    if unplaced:
        text = "events were left out: no snapshot of clocks ties their clock to the trace's"
        notes.append(Quality("unknown_clock", "warning", text, unplaced))
    tracks = resolve_tracks(raw["tracks"])
    people = system.list_threads(raw, tracks)
    events = pl.concat([raw["events"], read_prints(raw["prints"], people)], how="diagonal")
    slices, unclosed, unopened = close_slices(events, tracks)
    if unclosed:
        text = "ranges were still open at the trace's end: they end with it"
        notes.append(Quality("unclosed_ranges", "info", text, unclosed))
    if unopened:
        text = "ranges ended that do not begin in the trace: they were left out"
        notes.append(Quality("unmatched_ends", "info", text, unopened))
    named = name_layers(slices)
    on_device = device.find_device_slices(named)
    host = system.nest_host(named.filter(~on_device))
    made = device.list_device_work(named.filter(on_device), raw, host)
    tables = {
        **made,
        "host_ops": host.drop("event"),
        "counters": counters.list_counters(events, raw, tracks, people),
        "threads": people,
        **system.list_samples(raw, people),
    }
    if all(frame.is_empty() for name, frame in tables.items() if name != "threads"):
        damage = [format_note(n.count, n.text) for n in notes if n.severity == "error"]
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"{damage[0]}, and nothing else is in it"
            if damage and counted["packets"]
            else f"its {counted['packets']} packets hold no range, GPU work, counter, sample or "
            "context switch"
            if counted["packets"]
            else "it holds no packet of Perfetto's",
            hint="In Perfetto's UI, it shows what is in it:  https://ui.perfetto.dev",
        )
    # Context switches are of all threads of a machine: without a device's work they are no rank's.
    is_of_host = bool(made["device_ops"].is_empty() and tables["sched_events"].height)
    return Imported(tables, Recording("Perfetto", of_host=is_of_host or None), notes)


def _feed(source: Source, notes: list[Quality], unpacked_bytes: int) -> PerfettoTrace:
    size = source.size
    trace = PerfettoTrace(
        max(unpacked_bytes, size * _UNPACKED_PER_BYTE), max(_ROWS, size * _ROWS_PER_BYTE)
    )
    with source.open() as stream:
        while True:
            piece, damage = read_intact(stream, _PIECE)
            goes_on = trace.feed(piece)
            if damage is not None:
                notes.append(Quality("truncated", "error", f"reading stopped early: {damage}"))
            if damage is not None or not goes_on or len(piece) < _PIECE:
                return trace


def _decode(texts: pl.Series) -> pl.Series:
    """Texts as Unicode; what is none, as after damage, with replacement characters."""
    try:
        return texts.cast(pl.String)
    except pl.exceptions.ComputeError:
        decoded = [text.decode("utf-8", "replace") for text in texts.to_list()]
        return pl.Series(decoded, dtype=pl.String)


def _take(trace: PerfettoTrace, name: str, texts: pl.Series) -> pl.DataFrame:
    frame = unpack_columns(trace.take(name))
    return frame.with_columns(
        texts.gather((frame.get_column(column) - 1).cast(pl.UInt32)).alias(column)
        for column in _TEXTS.get(name, ())
    )


def _check_packets(counted: CountedPackets) -> list[Quality]:
    """What was lost on the way, or in the recording itself."""
    again = "Record with a larger buffer (fill_policy and size_kb in Perfetto's configuration)."
    said = (
        ("damaged_packets", "error", counted["damaged"], "packets are damaged, and left out", None),
        (
            "lost_packets",
            "warning",
            counted["lost"],
            "times a producer's packets were lost, its buffer being full",
            again,
        ),
        (
            "skipped_packets",
            "warning",
            counted["skipped"],
            "packets were left out: what they need was lost before",
            again,
        ),
        (
            "bad_times",
            "warning",
            counted["bad_times"],
            "events without a usable time, or on a queue that nothing describes, were left out",
            None,
        ),
        (
            "unknown_names",
            "info",
            counted["unknown_names"],
            "names that the trace refers to but never defines",
            again,
        ),
    )
    notes = [
        Quality(kind, severity, text, count, remedy)
        for kind, severity, count, text, remedy in said
        if count
    ]
    if counted["is_broken"] or counted["unread"]:
        text = "the trace is cut off, or damaged at a place after which nothing can be read"
        notes.append(Quality("cut_off", "error", text))
    if counted["is_too_long"]:
        text = "the trace unpacks to far more than its size allows: the rest was not read"
        notes.append(Quality("too_long", "error", text))
    return notes
