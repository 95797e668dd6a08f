"""All traces of a recording: kernel and user space of one host, and the chunks of each."""

from __future__ import annotations

from shlex import quote

import polars as pl

from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError, InputError
from sightline.formats.system.ctf.classes import Metadata, MetadataError
from sightline.formats.system.ctf.folders import METADATA, Trace, count_indexed, find_traces
from sightline.formats.system.ctf.mapping import load_rules
from sightline.formats.system.ctf.metadata import read_metadata
from sightline.formats.system.ctf.otf2 import is_archive, rebuild
from sightline.formats.system.ctf.rows import Meaning, find_meaning
from sightline.formats.system.ctf.slices import (
    BATCH_EVENTS,
    SLICE_BYTES,
    Slices,
    TraceReading,
    open_streams,
)
from sightline.formats.system.ctf.tables import Built, TableBuilder

_OF_KERNEL = ("sched_events", "interrupts", "disk_requests")
_MORE = "Record with more or larger sub-buffers (lttng enable-channel --num-subbuf, --subbuf-size)."


def read_recording(
    source: Source,
    options: ImportOptions,
    slice_bytes: int = SLICE_BYTES,
    batch_events: int = BATCH_EVENTS,
) -> Imported:
    """The tables of all traces in a folder. Raises DamagedError where none can be read.

    Rows of more than `slice_bytes` wait on disk, and are read again when they are written.
    """
    if not source.path.is_dir():
        raise InputError(
            f"cannot read {source.given}",
            why="it is a file of a CTF trace, and a trace is a folder",
            hint=f"Give the folder:  sightline {quote(str(source.path.parent))}",
        )
    notes: list[Quality] = []
    rules = load_rules(source.path)
    opened: list[tuple[TraceReading, Meaning]] = []
    refused: list[str] = []
    builder = TableBuilder()
    try:
        for trace in find_traces(source.path):
            name = str(trace.folder.relative_to(source.path) / METADATA)
            try:
                meaning = find_meaning(read_metadata(trace.folder / METADATA), rules)
                opened.append((open_streams(trace, meaning), meaning))
            except MetadataError as error:
                refused.append(f"{name}: {error}")
        slices = Slices(opened, slice_bytes, batch_events)
        for since, rows in slices.read():
            builder.add(since, rows)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read {source.given}", why=why) from error
    for reading, _ in opened:
        notes += check_reading(reading)
    if not opened:
        raise DamagedError(
            f"cannot read {source.given}",
            why="; ".join(refused) if refused else "no folder in it holds a CTF trace",
            hint="babeltrace2 FOLDER  prints what is in a trace.",
        )
    notes += [Quality("unread_trace", "error", f"a trace was left out: {why}") for why in refused]
    if slices.timeless:
        text = "events are of a stream without a clock: they have no time, and were left out"
        notes.append(Quality("no_clock", "warning", text, slices.timeless))
    built = builder.finish(notes)
    if built.is_empty:
        has_events = any(reading.events for reading, _ in opened)
        why = "none of its events has a time" if has_events else "its traces hold no event"
        raise DamagedError(f"cannot read {source.given}", why=why)
    if "host_ops" in built.tables and is_archive(built.tables["host_ops"]):
        made, left_out = rebuild(built.tables["host_ops"])
        built.tables |= made
        built.layers = tuple(made["host_ops"].get_column("layer").unique().sort())
        notes += left_out
    recording = describe_recording([meaning.metadata for _, meaning in opened], built, options)
    return Imported(built.tables, recording, notes, built.large)


def describe_recording(read: list[Metadata], built: Built, options: ImportOptions) -> Recording:
    """The tracer, its version, and the host where identities are kept."""
    first = read[0].environment
    names = sorted(
        {str(m.environment["tracer_name"]) for m in read if "tracer_name" in m.environment}
    )
    tool = (
        {"lttng-modules": "LTTng", "lttng-ust": "LTTng"}.get(names[0], names[0]) if names else "CTF"
    )
    parts = [first.get(f"tracer_{part}") for part in ("major", "minor", "patchlevel")]
    version = ".".join(str(part) for part in parts if part is not None)
    host = first.get("hostname")
    ranks = {m.environment.get("rank") for m in read}
    rank = ranks.pop() if len(ranks) == 1 else None
    return Recording(
        tool,
        version or None,
        rank=rank if isinstance(rank, int) and rank >= 0 else None,
        host=str(host) if options.keep_identity and host is not None else None,
        of_host=is_of_host(built) or None,
        layers=built.layers,
    )


def is_of_host(built: Built) -> bool:
    """Whether it is a trace of the kernel, without a device's work: then of no process."""
    tables = built.tables
    return "device_ops" not in tables and any(
        name in built.large or (name in tables and not tables[name].is_empty())
        for name in _OF_KERNEL
    )


def check_reading(reading: TraceReading) -> list[Quality]:
    """What was lost: in the recording itself, or because it is damaged."""
    notes = []
    if reading.damaged_packets:
        places = reading.describe_damage()
        more = f" (and {reading.damaged_packets - 1} more)" if reading.damaged_packets > 1 else ""
        text = f"packets were not read to their end; {places[0]}{more}"
        notes.append(Quality("damaged_packets", "error", text, reading.damaged_packets))
    if reading.foreign_packets:
        text = "packets carry another UUID than the metadata: they may be of another trace"
        notes.append(Quality("foreign_packets", "warning", text, reading.foreign_packets))
    if reading.backward_events:
        text = (
            "events have an earlier time than the one before them in their stream: its clock ran "
            "backwards, or wrapped where the metadata says that it cannot"
        )
        notes.append(Quality("backward_clock", "warning", text, reading.backward_events))
    packets = reading.list_packets()
    events, lost = count_losses(packets)
    if events:
        text = "events were discarded by the tracer: its buffers were full"
        notes.append(Quality("lost_events", "warning", text, events, _MORE))
    if lost:
        text = "packets were overwritten, or lost, before they were written down"
        notes.append(Quality("lost_packets", "warning", text, lost, _MORE))
    missing = _count_missing(reading.trace)
    if missing:
        text = "streams are shorter than their index says: the recording was cut"
        notes.append(Quality("cut_off", "error", text, missing))
    return notes


def count_losses(packets: pl.DataFrame) -> tuple[int, int]:
    """Events and packets that streams say were lost: their counters go on from packet to packet.

    The counter of events counts up to the packet's end, in as many bits as it has; a stream that
    begins with some lost them before. Numbers of packets count by one.
    """
    stream = pl.coalesce("stream", pl.lit(2**63, pl.UInt64) + pl.col("file"))
    placed = packets.with_columns(lane=pl.struct("stream_class", stream)).sort(
        "file", "byte", maintain_order=True
    )
    placed = placed.sort("begin", nulls_last=False, maintain_order=True)
    before = pl.col("discarded").shift(1).over("lane")
    step = pl.when(pl.col("discarded") >= before).then(pl.col("discarded") - before).otherwise(0)
    first = pl.when(before.is_null()).then("discarded")
    sequence = pl.col("sequence").cast(pl.Int64).diff().over("lane") - 1
    events, lost = placed.select(
        pl.coalesce(step, first).sum(), sequence.filter(sequence > 0).sum()
    ).row(0)
    return int(events or 0), int(lost or 0)


def _count_missing(trace: Trace) -> int:
    """How many streams end before the last packet that their index lists."""
    ends = [(path, count_indexed(path)) for path in trace.streams]
    return sum(1 for path, end in ends if end is not None and end > path.stat().st_size)
