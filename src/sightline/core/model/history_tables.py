"""A history's readings as columns: the sealed files, and what is not sealed yet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from sightline.core.model.history_folder import LiveFile, list_live, list_sealed, read_live
from sightline.core.watched_metrics import COUNTER, METRICS

KEYS = {
    "time_ns": pl.Int64,
    "interval_ns": pl.Int64,  # a mean of that much time before; null for one reading
    "device_id": pl.Int64,
    "source": pl.String,
}
_SECOND = 1_000_000_000
_COUNTED = frozenset(m.column for m in METRICS.values() if m.kind == COUNTER)
# What is not a quantity: the last value of an interval, and no mean.
_STATES = frozenset(
    METRICS[name].column
    for name in ("clock event reasons", "performance state", "XID", "power limit", "memory total")
)
EVENT_COLUMNS = {
    "time_ns": pl.Int64, "event": pl.String, "kind": pl.String, "device_id": pl.Int64,
    "source": pl.String, "text": pl.String,
}  # fmt: skip


def read_live_rows(live: LiveFile, kind: str) -> pl.DataFrame:
    """The rows of a kind: time, device, source, a column per metric with null for no reading."""
    rows: dict[int, list[tuple[int, int, bytes]]] = {}
    for told in live.rounds:
        for number, data in told.rows:
            table = live.entities[number][0]
            if live.tables[table].kind == kind:
                rows.setdefault(table, []).append((told.wall_ns, number, data))
    parts = [_read_table(live, table, mine) for table, mine in rows.items()]
    return pl.concat(parts, how="diagonal") if parts else pl.DataFrame(schema=KEYS)


def _read_table(live: LiveFile, table: int, rows: list[tuple[int, int, bytes]]) -> pl.DataFrame:
    columns = live.tables[table].columns
    values = np.frombuffer(b"".join(data for _, _, data in rows), "<f8")
    matrix = values.reshape(len(rows), len(columns))
    entities = [live.entities[number] for _, number, _ in rows]
    keys = {
        "time_ns": [at for at, _, _ in rows],
        "interval_ns": [None] * len(rows),
        "device_id": [device for _, device, _ in entities],
        "source": [source for _, _, source in entities],
    }
    frame = pl.DataFrame(keys, schema=KEYS)
    metrics = [
        pl.Series(name, np.ascontiguousarray(matrix[:, place])).fill_nan(None)
        for place, name in enumerate(columns)
        if name not in KEYS
    ]
    return frame.with_columns(metrics)


def read_live_events(live: LiveFile) -> pl.DataFrame:
    """What happened, a row each."""
    rows = [{name: event.get(name) for name in EVENT_COLUMNS} for event in live.events]
    return pl.DataFrame(rows, schema=EVENT_COLUMNS, strict=False)


def scan_history(folder: Path, kind: str) -> pl.LazyFrame:
    """All rows of a kind (or of events), in order of files; without order in time across them."""
    schema = EVENT_COLUMNS if kind == "events" else KEYS
    parts = [pl.scan_parquet(file) for file in list_sealed(folder, kind)]
    for path in list_live(folder):
        try:
            live = read_live(path)
        except OSError:  # sealed meanwhile
            continue
        frame = read_live_events(live) if kind == "events" else read_live_rows(live, kind)
        if frame.height:
            parts.append(frame.lazy())
    if not parts:
        return pl.LazyFrame(schema=schema)
    return pl.concat(parts, how="diagonal")


def thin_rows(rows: pl.DataFrame, interval_ns: int) -> pl.DataFrame:
    """One row an interval of each entity: means with _min and _max; counters and states as last.

    `time_ns` is the end of the interval. Rows that are means already count by their length.
    """
    metrics = [c for c in rows.columns if c not in KEYS and not c.endswith(("_min", "_max"))]
    wide = rows.with_columns(
        pl.col(c).alias(f"{c}_{end}")
        for c in metrics
        for end in ("min", "max")
        if f"{c}_{end}" not in rows.columns and is_quantity(c)
    )
    told = []
    for name in metrics:
        if not is_quantity(name):
            told.append(pl.col(name).drop_nulls().last())
            continue
        weight = pl.col("interval_ns").fill_null(_SECOND).filter(pl.col(name).is_not_null())
        mean = (pl.col(name).drop_nulls() * weight).sum() / weight.sum()
        told += [
            mean.fill_nan(None),
            pl.min_horizontal(pl.col(f"{name}_min").min(), pl.col(name).min()).alias(f"{name}_min"),
            pl.max_horizontal(pl.col(f"{name}_max").max(), pl.col(name).max()).alias(f"{name}_max"),
        ]
    # A mean belongs to the interval in which its own time lies: its end is not in the next one.
    slot = (pl.col("time_ns") - 1) // interval_ns
    return (
        wide.sort("time_ns")
        .group_by("device_id", "source", slot.alias("slot"), maintain_order=True)
        .agg(told)
        .with_columns(
            time_ns=(pl.col("slot") + 1) * interval_ns, interval_ns=pl.lit(interval_ns, pl.Int64)
        )
        .drop("slot")
        .select([*KEYS, pl.exclude(*KEYS)])
    )


def is_quantity(column: str) -> bool:
    """Whether a column's values have a mean: counters and states do not."""
    return column not in _COUNTED and column not in _STATES
