"""Counters and memory as lines, for their panels and for the timeline."""

from __future__ import annotations

import polars as pl

from sightline.core.page import blocks
from sightline.core.page.declare import Block, View

MAX_SERIES = 60


def make_counter_blocks(view: View) -> list[Block]:
    """One plot for each metric and what it was measured on."""
    if not view.run.rows("counters"):
        return []
    # Those of another clock than the page's have no place on its axis.
    counters = view.run.table("counters").filter(pl.col("time_ns").is_between(*view.span))
    by = ["metric", "unit", "rank", "device_id", "source"]
    found = []
    for key, rows in counters.sort(*by, nulls_last=True).group_by(by, maintain_order=True):
        metric, unit, rank, device, source = key
        place = [f"rank {rank}"] if counters.get_column("rank").n_unique() > 1 else []
        place += [f"GPU {device}"] if device is not None else []
        place += [str(source)] if source else []
        title = " · ".join([str(metric), *place])
        block = blocks.make_lines(
            title, rows, "time_ns", {"value": str(metric)}, view.span[0], str(unit or "")
        )
        if block["series"]:
            found.append(block)
        if len(found) == MAX_SERIES:
            break
    return found


def make_tracks(view: View) -> list[Block]:
    """The same lines as rows of the timeline: memory first, then counters, each in its group."""
    memory = [{**block, "group": "Memory"} for block in make_memory_blocks(view)]
    return memory + [{**block, "group": "Counters"} for block in make_counter_blocks(view)]


def note_left_out(view: View) -> int:
    """How many series are more than the page shows."""
    by = ["metric", "unit", "rank", "device_id", "source"]
    return max(0, view.run.table("counters").select(by).n_unique() - MAX_SERIES)


def make_memory_blocks(view: View) -> list[Block]:
    """Allocated and reserved bytes over time, one plot for each device and process."""
    if not view.run.rows("memory_events"):
        return []
    events = view.run.scan("memory_events").filter(
        pl.col("allocated_bytes").is_not_null() | pl.col("reserved_bytes").is_not_null()
    )
    by = ["rank", "device_id", "pid"]
    plots = events.select(by).unique().collect(engine="streaming").sort(by, nulls_last=True)
    found = []
    for key in plots.rows():
        rank, device, _ = key
        place = "host" if device is None else f"GPU {device}"
        values = {"allocated_bytes": "allocated", "reserved_bytes": "reserved"}
        here = [pl.col(name).eq_missing(value) for name, value in zip(by, key, strict=True)]
        block = blocks.make_lines(
            f"rank {rank} · {place}",
            events.filter(here),
            "time_ns",
            values,
            view.span[0],
            "bytes",
        )
        if block["series"]:
            found.append(block)
    return found
