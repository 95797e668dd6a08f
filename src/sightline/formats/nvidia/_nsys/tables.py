"""Puts the declared tables together: ids, launches, one clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import polars as pl

from sightline.core.algebra.lookup import find_first_rows
from sightline.core.model.constants import find_constants
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.parts import make_in_parts
from sightline.core.model.tables import load_table
from sightline.core.units import INT64_MAX
from sightline.formats.nvidia._nsys import (
    codes,
    device,
    gpus,
    host,
    nvtx,
    quality,
    samples,
    stacks,
    target,
)
from sightline.formats.nvidia._nsys.database import Database

# Times beyond half the range are damage: sums and differences of the others cannot overflow.
_TIME_LIMIT = INT64_MAX // 4
LARGE_ROWS = 1 << 18


def build_tables(db: Database, meta: dict[str, str], options: ImportOptions) -> Imported:
    """The tables of one export, and the facts on it."""
    keep = options.keep_identity
    offset = target.start_of_session(db)
    _, end = target.find_span(db)
    frames, trie, chains = stacks.read(db, keep_identity=keep)
    with ThreadPoolExecutor(1) as pool:  # reading either keeps little more than one core busy
        reading = pool.submit(device.read, db)
        ranges, mpi, counts = host.read(db, chains, end)
    announced = nvtx.list_announced(ranges, nvtx.read_nccl_payloads(db))
    ranges = ranges.rename({"rowid": "event_row"})
    ops, without, shared = device.name_physical(_keep_plausible(reading.result()), db)
    del reading
    counts["without_device"] = without
    # CUPTI: "if start and end are both 0, the time could not be collected"; no session begins so.
    unclocked = (pl.col("start_ns") == 0) & (pl.col("end_ns") == 0)
    counts["unclocked"] = ops.filter(unclocked).height
    if counts["unclocked"]:
        ops = ops.filter(~unclocked)
    negative = ops.filter(pl.col("end_ns") < pl.col("start_ns")).height
    counts["negative"] += negative
    if negative:
        ops = ops.filter(pl.col("end_ns") >= pl.col("start_ns"))
    calls = _calls(ranges)
    ops = add_launches(ops, calls)
    sampled, switched = (
        stacks.read_samples(db, chains["SAMPLING_CALLCHAINS"]),
        stacks.read_switches(db),
    )
    tables = {
        "device_ops": ops,
        "device_ranges": samples.read_workloads(db),
        "host_ops": ranges,
        "syncs": add_call(device.syncs(db), calls),
        "cuda_events": add_call(device.events(db), calls),
        "collectives": nvtx.list_collectives(announced, ops),
        "memory_events": add_call(samples.read_memory(db), calls),
        "memory_pools": samples.read_pools(db),
        "page_faults": samples.read_page_faults(db),
        "counters": samples.read_counters(db, keep_identity=keep),
        "graph_events": samples.read_graphs(db),
        "file_accesses": samples.read_file_accesses(db, keep_identity=keep),
        "mpi_events": mpi,
        "frames": frames,
        "stacks": trie,
        "cpu_samples": sampled,
        "sched_events": switched,
        "devices": gpus.list_devices(db, ops, keep_identity=keep),
        "threads": target.list_threads(db, ranges, [sampled, switched]),
    }
    for name in ("syncs", "cuda_events", "memory_events", "memory_pools", "page_faults"):
        tables[name] = device.renumber_events(tables[name], db)
    found = quality.check_tables(db, ops, ranges, counts, shared)
    recording = replace(
        target.describe_recording(db, meta, options, ranges), has_stacks=bool(trie.height)
    )
    # Last, when all has been read: it lists what could not be.
    found = quality.check_file(db, meta, has_clock=offset is not None) + found
    del ranges, ops, calls
    # Of a large table no second copy of the times is made: they are moved while it is written.
    large = {n: codes.shrink_columns(f) for n, f in tables.items() if f.height > LARGE_ROWS}
    same = {n: find_constants(f, _may_be_constant(n, f)) for n, f in large.items()}
    large = {n: f.drop(same[n]) for n, f in large.items()}
    return Imported(
        {n: _move_to_clock(n, f, offset or 0) for n, f in tables.items() if n not in large},
        recording,
        found,
        {n: make_in_parts(f.height, partial(_part, n, f, offset or 0)) for n, f in large.items()},
        same,
    )


def _may_be_constant(table: str, frame: pl.DataFrame) -> list[str]:
    """All but times and ids, which are moved while they are written or read, and helper columns."""
    moved = {*load_table(table).ids, *load_table(table).moments}
    return [c for c in frame.columns if not (c in moved or c.startswith("_"))]


def _part(table: str, frame: pl.DataFrame, offset: int, start: int, count: int) -> pl.DataFrame:
    return _move_to_clock(table, frame.slice(start, count), offset)


def _keep_plausible(ops: pl.DataFrame) -> pl.DataFrame:
    times = [c for c in ("start_ns", "end_ns") if c in ops.columns]
    return ops.filter(pl.all_horizontal(pl.col(times).is_between(-_TIME_LIMIT, _TIME_LIMIT)))


def _move_to_clock(table: str, frame: pl.DataFrame, offset: int) -> pl.DataFrame:
    """Moved to the run's clock, without helper columns."""
    times = [c for c in load_table(table).moments if c in frame.columns]
    helpers = [c for c in frame.columns if c.startswith("_")]
    return frame.drop(helpers).with_columns(pl.col(times) + offset)


def _calls(ranges: pl.DataFrame) -> pl.DataFrame:
    """API calls by process and correlation id, outermost and first ones first."""
    wanted = ranges.select("layer", "correlation_id").select(
        pl.col("layer").is_in(["runtime", "driver"]) & pl.col("correlation_id").is_not_null()
    )
    calls = ranges.select("_gpid", "correlation_id", "host_op_id")
    mask = wanted.to_series()
    return calls if mask.all() else calls.filter(mask)


def add_call(frame: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The frame with the `host_op_id` of the call that has its process and correlation id.

    Of several calls with the same id (a driver call inside a runtime call) the first one counts.
    """
    row = find_first_rows(calls, frame, "correlation_id", ["_gpid"])
    return frame.with_columns(calls.get_column("host_op_id").gather(row))


def add_launches(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Operations in order of start, with ids from 0 and the call that launched each."""
    if not ops.get_column("start_ns").is_sorted():
        ops = ops.sort("start_ns", "end_ns", maintain_order=True)
    return (
        add_call(ops, calls)
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("device_op_id"))
        .rename({"host_op_id": "launch_id"})
    )
