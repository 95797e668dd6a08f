"""Every event of a recording in order of time, one row each, with what is known of it in words.

Any declared table with a moment in it holds events: what they are called, where they were and how
long they took is found by the names of its columns, so that a new table is listed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core import registry
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.columns import Column, duration, number, text, time
from sightline.core.model.run import Run
from sightline.core.model.tables import load_table
from sightline.core.units import format_ns
from sightline.errors import MissingDataError, RequestError
from sightline.timeline.collectives import list_members

COLUMNS = (
    time("time_ns", "when it happened, or began"),
    duration("duration_ns", "duration; null for an event without one"),
    number("rank", "rank"),
    text("what", "the kind of event: kernel, memcpy, op, runtime, sched, ...", required=True),
    text("name", "what it was"),
    text("place", "device and stream, or process, thread and CPU"),
    text("remarks", "who waited for whom, counters of the GPU meanwhile, the message of a call"),
    text("notes", "all other fields that have a value"),
)
# Samples are no events: they are listed where they are asked for, or are all there is.
_SAMPLES = ("counters", "cpu_samples")
# What the recording itself is, and series of a whole job.
_NO_EVENTS = ("recordings", "job_series", "jobs", "job_means", "communicator_ranks")
_MOMENTS = ("start_ns", "time_ns")
_NAMES = ("name", "event", "metric", "action", "text", "kind", "state")
_KINDS = ("layer", "kind")
_PLACES = {
    "device_id": "gpu", "stream_id": "stream", "pid": "pid", "tid": "tid", "cpu": "cpu",
}  # fmt: skip
# Counters beside a kernel, as monitors and as nsys' sampling of GPU metrics call them.
_BESIDE = {
    "SM": r"^SMs? [aA]ctive",
    "TC": r"^[tT]ensor [aA]ctive",
    "DRAM": r"^DRAM (?:active|Bandwidth|Read Bandwidth)",
}


def list_event_tables(run: Run) -> list[str]:
    """The tables of a run that hold events, samples last."""
    names = [
        name
        for name in registry.list_names("tables")
        if name not in _NO_EVENTS and _find(load_table(name).schema, _MOMENTS) and run.rows(name)
    ]
    return sorted(names, key=lambda name: (name in _SAMPLES, name))


def list_events(
    run: Run,
    *,
    span: tuple[int, int] | None = None,
    only: Sequence[str] = (),
    pattern: str | None = None,
) -> pl.DataFrame:
    """COLUMNS, in order of time: events that begin in `span` and match `pattern`.

    `only` are tables' names. Raises RequestError for an unknown table or a pattern that is none,
    and MissingDataError where the run has no event.
    """
    known = list_event_tables(run)
    for name in only:
        if name not in known:
            raise RequestError(
                f"there are no events '{name}'", why=f"there are {', '.join(known) or 'none'}"
            )
    chosen = list(only) or [name for name in known if name not in _SAMPLES] or known
    if not chosen:
        raise MissingDataError("there are no events", why="nothing in the recording has a time")
    try:
        parts = [_list_table(run, name, span, pattern) for name in chosen]
    except pl.exceptions.ComputeError as error:
        words = [line.strip() for line in str(error).splitlines() if "error:" in line]
        why = words[-1].removeprefix("error:").strip() if words else None
        raise RequestError(f"'{pattern}' is not a regular expression", why=why) from error
    return pl.concat(parts).sort("time_ns", "rank", "what", "duration_ns", maintain_order=True)


def _list_table(
    run: Run, name: str, span: tuple[int, int] | None, pattern: str | None
) -> pl.DataFrame:
    table = load_table(name)
    schema = table.schema
    start = _find(schema, _MOMENTS)
    assert start is not None
    rows = run.scan(name).filter(pl.col(start).is_not_null())
    if span is not None:
        rows = rows.filter(pl.col(start).is_between(*span, closed="left"))
    frame = rows.collect()
    own = _find(schema, _NAMES)
    kind = _find(schema, _KINDS)
    notes = _note_fields([c for c in table.columns if c.name not in (own, kind)])
    frame = frame.with_columns(_remarks=_note_more(run, name, frame), _notes=notes)
    label = pl.lit(name.removesuffix("_events").rstrip("s").replace("_", " "))
    told = frame.select(
        time_ns=pl.col(start),
        duration_ns=_measure(schema, start),
        rank=pl.col("rank") if "rank" in schema else pl.lit(None),
        what=label if kind in (None, own) else pl.coalesce(kind, label),
        name=pl.lit(None, pl.String) if own is None else pl.col(own),
        place=_join_notes(
            [_write_field(pl.col(c), word, " ") for c, word in _PLACES.items() if c in schema]
        ),
        remarks=pl.col("_remarks"),
        notes=pl.col("_notes"),
    ).cast({column.name: column.dtype for column in COLUMNS})
    clean = pl.col("name", "remarks", "notes").str.replace_all(r"[\x00-\x1f\x7f]+", " ")
    told = told.with_columns(clean)
    if pattern is None:
        return told
    words = pl.concat_str(
        "what", "name", "place", "remarks", "notes", separator=" ", ignore_nulls=True
    )
    return told.filter(words.str.contains(pattern))


def _measure(schema: object, start: str) -> pl.Expr:
    """How long it took; null for moments and marks."""
    if _find(schema, ("end_ns",)) is None:
        return pl.lit(None)
    length = pl.col("end_ns") - pl.col(start)
    if _find(schema, ("range_kind",)) is None:
        return length
    return pl.when(pl.col("range_kind").ne_missing("mark")).then(length)


def _note_fields(columns: Sequence[Column]) -> pl.Expr:
    """All other fields that have a value, as `name=value`."""
    left_out = {"rank", "recording_id", "end_ns", *_MOMENTS, *_NAMES[:2], *_KINDS[:1], *_PLACES}
    left_out |= {
        "context_id",
        "correlation_id",
        "external_id",
        "sequence_id",
        "short_name",
        "mangled_name",
        "depth",
        "subtree_end_id",
        "stack",
        "event_row",
        "range_kind",
    }
    known = {column.name for column in columns}
    shapes = []
    for word in ("grid", "block", "cluster"):
        axes = [f"{word}_{axis}" for axis in "xyz"]
        if set(axes) <= known:
            left_out |= set(axes)
            shapes.append(_write_field(pl.concat_str(*axes, separator=","), word, "="))
    return _join_notes(
        [
            *shapes,
            *(
                _write_field(pl.col(c.name), c.name.removesuffix("_bytes"), "=")
                for c in columns
                if c.name not in left_out
                and not (c.is_id or c.joins is not None or isinstance(c.dtype, pl.List))
            ),
        ]
    )


def _write_field(value: pl.Expr, word: str, between: str) -> pl.Expr:
    text = value.cast(pl.String)
    return pl.when(text != "").then(pl.concat_str(pl.lit(word + between), text))


def _join_notes(parts: Sequence[pl.Expr]) -> pl.Expr:
    if not parts:
        return pl.lit(None, pl.String)
    joined = pl.concat_str(*parts, separator=" ", ignore_nulls=True)
    return pl.when(joined != "").then(joined)


def _note_more(run: Run, name: str, frame: pl.DataFrame) -> pl.Expr:
    """Of the device's operations: who waited for whom, and the counters while they ran.

    Of MPI's calls, the message.
    """
    if name == "host_ops" and run.rows("mpi_events"):
        return pl.lit(_note_messages(run, frame))
    if name != "device_ops" or frame.is_empty():
        return pl.lit(None, pl.String)
    parts = [_note_waits(run, frame), *_note_counters(run, frame)]
    return _join_notes([pl.lit(part) for part in parts])


def _note_waits(run: Run, frame: pl.DataFrame) -> pl.Series:
    """'waits 610 µs for rank 3' of each member of a collective that was there before the last."""
    members = list_members(run).filter("matched") if run.rows("collectives") else None
    none = pl.Series([None] * frame.height, dtype=pl.String)
    if members is None or members.is_empty():
        return none
    last = members.group_by("meeting").agg(last_rank=pl.col("rank").sort_by("start_ns").last())
    waits = members.join(last, on="meeting").filter(pl.col("rank") != pl.col("last_rank"))
    told = frame.select("device_op_id").join(
        waits.select("device_op_id", "wait_ns", "last_rank").unique("device_op_id"),
        on="device_op_id",
        how="left",
        maintain_order="left",
    )
    texts = [
        None if ns is None or ns <= 0 else f"waits {format_ns(ns)} for rank {rank}"
        for ns, rank in told.select("wait_ns", "last_rank").iter_rows()
    ]
    return pl.Series(texts, dtype=pl.String)


def _note_messages(run: Run, frame: pl.DataFrame) -> pl.Series:
    """'send to rank 3, tag 7, 4096 bytes' of each call, of several the first."""
    used = ["host_op_id", "direction", "peer_rank", "peer", "tag", "bytes", "bytes_sent"]
    size = pl.coalesce("bytes", "bytes_sent")
    way = pl.when(pl.col("direction") == "receive").then(pl.lit("from")).otherwise(pl.lit("to"))
    notes = run.table("mpi_events", used).select(
        "host_op_id",
        note=pl.concat_str(
            pl.format("{} rank {}", way, pl.coalesce("peer_rank", "peer")),
            pl.format("tag {}", "tag"),
            pl.format("{} bytes", size),
            separator=", ",
            ignore_nulls=True,
        ),
    )
    told = frame.select("host_op_id").join(
        notes.filter(pl.col("note") != "").unique("host_op_id", keep="first"),
        on="host_op_id",
        how="left",
        maintain_order="left",
    )
    return told.get_column("note")


def _note_counters(run: Run, frame: pl.DataFrame) -> list[pl.Series]:
    """'SM=78%' and so on: means of the samples that lie within an operation, where any does."""
    if not run.rows("counters"):
        return []
    found = []
    for word, pattern in _BESIDE.items():
        samples = (
            run.scan("counters")
            .filter(pl.col("metric").str.contains(pattern), pl.col("device_id").is_not_null())
            .select("rank", "device_id", "time_ns", "value")
            .collect()
            .sort("time_ns")
        )
        if samples.is_empty():
            continue
        texts: list[str | None] = [None] * frame.height
        places = frame.select("rank", "device_id", "start_ns", "end_ns").with_row_index("at")
        for (rank, device), mine in places.group_by("rank", "device_id"):
            own = samples.filter(rank=rank, device_id=device)
            if own.is_empty():
                continue
            times, sums = own.get_column("time_ns"), [0.0, *own["value"].cum_sum()]
            first = times.search_sorted(mine["start_ns"], "left")
            last = times.search_sorted(mine["end_ns"], "right")
            for at, a, b in zip(mine["at"], first, last, strict=True):
                if b > a:
                    texts[at] = f"{word}={(sums[b] - sums[a]) / (b - a):.0f}%"
        found.append(pl.Series(texts, dtype=pl.String))
    return found


def shorten_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Kernels' names as a person reads them, each different one shortened once."""
    kernels = frame.filter(pl.col("what") == "kernel").get_column("name").drop_nulls().unique()
    short = {name: shorten_kernel_name(name) for name in kernels}
    if not short:
        return frame
    name = pl.col("name").replace(short)
    return frame.with_columns(name=pl.when(pl.col("what") == "kernel").then(name).otherwise("name"))


def _find(schema: object, names: Sequence[str]) -> str | None:
    known = set(schema)  # type: ignore[call-overload]
    return next((name for name in names if name in known), None)
