"""What `sightline watch` keeps: readings of GPUs, their parts and processes, the host and links.

Each value becomes a row of `counters`, as if it came from any other log. Of a history of weeks
means are read, over the shortest of the intervals below that leaves a number of values which an
analysis can hold; counters and states are read as they were at the end of each. docs/watch.md says
how to ask the history itself (`sightline sql`).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.history_folder import (
    EVENTS,
    FACTS,
    KINDS,
    is_history,
    list_live,
    read_devices,
    read_live,
)
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._text_damage import count_misspelt, note_names


def find_recordings(folder: Path) -> list[Path]:
    """The histories in a folder; it may be one itself."""
    places = [folder, *(facts.parent for facts in sorted(folder.rglob(FACTS)))]
    return sorted({place for place in places if is_history(place)})


IMPORTER = Importer(
    name="watch_history",
    label="history of sightline watch",
    strong=(rb"^FOLDER\n(?:[^\n]*\n)*watch\.json ",),
    weak=(),
    looks_like="a folder with a file watch.json",
    suffixes=(),
    version=3,
    source="docs/watch.md",
    anchors=("watch.json",),
    find_folders=find_recordings,
)

# An hour of 8 GPUs with 40 metrics, every second, is 1.2 million.
_MOST_VALUES = 6_000_000
_INTERVALS_S = (10, 60, 600, 3600)
# Polars panics, which is no Exception, where bytes of a page are others.
_FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_SECOND = 1_000_000_000
_COUNTERS = ("metric", "unit", "device_id", "source", "from_ns", "time_ns", "value")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all of it. Raises DamagedError where there is no reading."""
    from sightline.core.model.history_tables import scan_history, thin_rows
    from sightline.core.watched_metrics import METRICS

    frames = {kind: _collect(source, scan_history(source.path, kind)) for kind in KINDS}
    frames = {kind: frame for kind, frame in frames.items() if frame.height}
    quality = _note_losses(source)
    columns = {name for frame in frames.values() for name in frame.columns}
    quality += note_names(count_misspelt(columns, {one.column for one in METRICS.values()}))
    if not frames:
        raise DamagedError(f"cannot read {source.given}", why="it holds no reading yet")
    for seconds in _INTERVALS_S:
        if sum(frame.height * frame.width for frame in frames.values()) <= _MOST_VALUES:
            break
        frames = {kind: thin_rows(frame, seconds * _SECOND) for kind, frame in frames.items()}
        shown = f"means of {seconds} s: the history has more values than are read at once"
        quality = [q for q in quality if q.kind != "history_thinned"]
        quality.append(Quality("history_thinned", "info", shown))
    counters = pl.concat([_unfold(frame) for frame in frames.values()]).sort("time_ns")
    if not counters.height:
        raise DamagedError(f"cannot read {source.given}", why="none of its columns is known")
    tables = {"counters": counters, "devices": _read_devices(source, counters, options)}
    times = counters.get_column("time_ns")
    events = _collect(source, scan_history(source.path, EVENTS))
    quality += _note_events(events)
    tables["device_events"] = events.drop_nulls(["time_ns", "event"]).sort("time_ns").drop("kind")
    recording = Recording(
        "sightline watch",
        start_ns=times[0],
        end_ns=times[-1],
        of_host=True,
    )
    return Imported(tables, recording, quality)


def _collect(source: Source, rows: pl.LazyFrame) -> pl.DataFrame:
    try:
        return rows.collect()
    except _FAILURES as error:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"a file of it is damaged: {str(error).splitlines()[0][:200]}",
            hint=f"Move {_find_damaged(source)} out of the folder; the rest is read without it.",
        ) from error


def _find_damaged(source: Source) -> str:
    """The first sealed file that cannot be read, from the folder on."""
    for path in source.files():
        if path.suffix == ".parquet":
            try:
                pl.scan_parquet(path).collect()
            except _FAILURES:
                return str(path.relative_to(source.path))
    return "the damaged file"


def _unfold(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each value, under its metric's name and unit."""
    from sightline.core.model.history_tables import is_quantity
    from sightline.core.watched_metrics import METRICS

    known = {metric.column: metric for metric in METRICS.values()}
    metrics = [name for name in rows.columns if name in known]
    long = rows.unpivot(
        on=metrics,
        index=["time_ns", "interval_ns", "device_id", "source"],
        variable_name="column",
        value_name="value",
    ).drop_nulls("value")
    names = pl.DataFrame(
        {
            "column": metrics,
            "metric": [known[name].name for name in metrics],
            "unit": [known[name].unit for name in metrics],
            "is_mean": [is_quantity(name) for name in metrics],
        },
        schema={
            "column": pl.String,
            "metric": pl.String,
            "unit": pl.String,
            "is_mean": pl.Boolean,
        },
    )
    return (
        long.join(names, on="column", maintain_order="left")
        # Of a counter or a state the value at the end is kept, and no mean.
        .with_columns(from_ns=pl.when("is_mean").then(pl.col("time_ns") - pl.col("interval_ns")))
        .select(_COUNTERS)
    )


def _read_devices(source: Source, counters: pl.DataFrame, options: ImportOptions) -> pl.DataFrame:
    """The GPUs that have values, by name; who they are exactly only where that is asked for."""
    lives = [read_live(path) for path in list_live(source.path)]
    told = {device["device_id"]: device for device in read_devices(source.path, lives)}
    seen = counters.get_column("device_id").drop_nulls().unique().to_list()
    numbers = sorted({*seen, *told})
    kept = ("vendor", "name", *(("uuid",) if options.keep_identity else ()))
    columns = {name: [_text(told.get(n, {}).get(name)) for n in numbers] for name in kept}
    return pl.DataFrame(
        {"device_id": numbers, **columns},
        schema={"device_id": pl.Int64, **dict.fromkeys(columns, pl.String)},
    )


def _text(value: object) -> str | None:
    return str(value) if value else None


def _note_losses(source: Source) -> list[Quality]:
    lost = sum(read_live(path).lost for path in list_live(source.path))
    text = "bytes after the last whole record: the watch was ended there"
    return [Quality("history_cut", "info", text, lost)] if lost else []


def _note_events(events: pl.DataFrame) -> list[Quality]:
    """Jumps of the clock, gaps and resets limit what can be concluded."""
    found = []
    for kind, name, text in (
        (
            "clock-set",
            "clock_set",
            "times at which the wall clock was set: rows overlap or leave a gap",
        ),
        ("gap", "readings_missing", "gaps in which nothing was read"),
        (
            "counter-reset",
            "counter_reset",
            "counters were reset: no difference is taken across a reset",
        ),
    ):
        count = events.filter(pl.col("event") == kind).height
        if count:
            found.append(Quality(name, "info", text, count))
    return found
