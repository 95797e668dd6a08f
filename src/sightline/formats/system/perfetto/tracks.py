"""Tracks: whose they are, and the names on the way to them from the root."""

from __future__ import annotations

import polars as pl

MOST_LEVELS = 32  # of tracks above a track; a circle ends there
_SCHEMA = {
    "track": pl.Int64,
    "owner_pid": pl.Int64,
    "owner_tid": pl.Int64,
    "title": pl.String,
    "above": pl.String,
    "process_name": pl.String,
    "thread_name": pl.String,
    "unit": pl.String,
    "multiplier": pl.Int64,
    "is_incremental": pl.Int64,
}
_UNITS = {1: "ns", 2: "count", 3: "bytes"}  # CounterDescriptor.Unit


def resolve_tracks(described: pl.DataFrame) -> pl.DataFrame:
    """One row per track: the process and thread that it belongs to, its name and its parent's.

    Only a thread's own track has its thread: tracks below it may hold what overlaps. A track that
    is described again keeps what only the earlier description says.
    """
    merged = described.group_by("uuid", maintain_order=True).agg(
        pl.all().exclude("uuid").drop_nulls().last()
    )
    rows = {row["uuid"]: row for row in merged.iter_rows(named=True)}
    found = []
    for uuid, row in rows.items():
        pid, at, names, levels = row["pid"], row, [], 0
        while (parent := rows.get(at["parent"])) is not None and levels < MOST_LEVELS:
            at, levels = parent, levels + 1
            pid = at["pid"] if pid is None else pid
            names.append(at["name"] or at["thread_name"] or at["process_name"] or "")
        found.append(
            {
                "track": uuid,
                "owner_pid": pid,
                "owner_tid": row["tid"],
                "title": row["name"],
                "above": names[0] if names else None,
                "process_name": row["process_name"],
                "thread_name": row["thread_name"],
                "unit": row["unit_name"] or _UNITS.get(row["unit"]),
                "multiplier": row["multiplier"],
                "is_incremental": row["is_incremental"],
            }
        )
    return pl.DataFrame(found, schema=_SCHEMA)
