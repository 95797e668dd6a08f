"""SQL over the folder that `sightline watch` keeps: DuckDB views on its Parquet files.

`gpus`, `instances`, `processes`, `host`, `links` have a row per reading and a column per metric;
`counters` has a row per value; `events` and `devices` are what they are called. What is not sealed
yet is in them, too.
"""

from __future__ import annotations

import glob
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from sightline.answer.sql import answer_tables
from sightline.core.model.history_folder import (
    EVENTS,
    KINDS,
    LiveFile,
    list_live,
    list_sealed,
    read_devices,
    read_live,
)
from sightline.core.model.history_tables import (
    EVENT_COLUMNS,
    KEYS,
    read_live_events,
    read_live_rows,
)
from sightline.core.watched_metrics import METRICS

_HINT = "The tables: gpus, instances, processes, host, links, events, devices, counters."
_TYPES = {pl.Int64: "BIGINT", pl.String: "VARCHAR"}


def answer_history(folder: Path, query: str, *, unsafe: bool = False) -> pl.DataFrame:
    """The rows of a query. Raises RequestError where the SQL is wrong."""
    lives = [live for path in list_live(folder) if (live := _read(path)) is not None]
    with tempfile.TemporaryDirectory(prefix="sightline-") as fresh:
        paths = {kind: list_sealed(folder, kind) for kind in (*KINDS, EVENTS)}
        for kind in paths:
            # DuckDB takes frames through pyarrow only, and files as they are.
            paths[kind] += _write_fresh(lives, kind, Path(fresh))

        def define(connection: Any) -> None:
            for kind, files in paths.items():
                _define(connection, kind, files)
            _define_devices(connection, folder, lives)
            _define_counters(connection)

        files = {str(file.absolute()) for mine in paths.values() for file in mine}
        return answer_tables(define, files, query, unsafe=unsafe, hint=_HINT)


def _write_fresh(lives: list[LiveFile], kind: str, folder: Path) -> list[Path]:
    """What is not sealed yet, as a file beside the others."""
    read = read_live_events if kind == EVENTS else partial(read_live_rows, kind=kind)
    frames = [frame for live in lives if (frame := read(live)).height]
    if not frames:
        return []
    path = folder / f"{kind}.parquet"
    pl.concat(frames, how="diagonal").write_parquet(path, compression="uncompressed")
    return [path]


def _read(path: Path) -> LiveFile | None:
    try:
        return read_live(path)
    except OSError:  # sealed meanwhile
        return None


def _define(connection: Any, kind: str, paths: list[Path]) -> None:
    schema = EVENT_COLUMNS if kind == EVENTS else KEYS
    columns = ", ".join(f'"{name}" {_TYPES[type_]}' for name, type_ in schema.items())
    connection.execute(f'CREATE TABLE "{kind}_keys" ({columns})')
    parts = [f'SELECT * FROM "{kind}_keys"']  # noqa: S608
    if paths:
        names = ", ".join(
            "'" + glob.escape(str(p.absolute())).replace("'", "''") + "'" for p in paths
        )
        options = "union_by_name=true, hive_partitioning=false"
        parts.append(f"SELECT * FROM read_parquet([{names}], {options})")  # noqa: S608
    union = " UNION ALL BY NAME ".join(parts)
    connection.execute(
        f'CREATE VIEW "{kind}" AS SELECT make_timestamp_ns(time_ns) AS "time", * FROM ({union})'  # noqa: S608
    )


def _define_devices(connection: Any, folder: Path, lives: list[LiveFile]) -> None:
    told = read_devices(folder, lives)
    names = ("device_id", "vendor", "name", "uuid", "pci_bus_id", "driver")
    connection.execute(
        "CREATE TABLE devices (device_id BIGINT, vendor VARCHAR, name VARCHAR, uuid VARCHAR, "
        "pci_bus_id VARCHAR, driver VARCHAR)"
    )
    rows = [[device[name] for name in names] for device in told]
    if rows:
        connection.executemany("INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?)", rows)


def _define_counters(connection: Any) -> None:
    """A row a value, named as in a run's table of that name."""
    watched = [(metric.column, metric.name, metric.unit) for metric in METRICS.values()]
    connection.execute('CREATE TABLE watched ("column" VARCHAR, metric VARCHAR, unit VARCHAR)')
    connection.executemany("INSERT INTO watched VALUES (?, ?, ?)", [list(row) for row in watched])
    known = {column for column, _, _ in watched}
    parts = []
    for kind in KINDS:
        described = connection.execute(f'DESCRIBE "{kind}"').fetchall()
        columns = [f'"{name}"' for name, *_ in described if name in known]
        if columns:
            parts.append(
                f'SELECT device_id, source, interval_ns, time_ns, "column", "value" FROM '  # noqa: S608
                f'(UNPIVOT "{kind}" ON {", ".join(columns)} INTO NAME "column" VALUE "value")'
            )
    if not parts:
        connection.execute(
            "CREATE TABLE counters (metric VARCHAR, unit VARCHAR, device_id BIGINT, "
            "source VARCHAR, from_ns BIGINT, time_ns BIGINT, value DOUBLE)"
        )
        return
    connection.execute(
        "CREATE VIEW counters AS SELECT metric, unit, device_id, source, "  # noqa: S608
        'time_ns - interval_ns AS from_ns, time_ns, "value" FROM '
        f'({" UNION ALL ".join(parts)}) JOIN watched USING ("column")'
    )
