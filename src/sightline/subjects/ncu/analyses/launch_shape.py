"""How each profiled kernel's grid and blocks fit the device: waves, tail, idle lanes."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from sightline.core.model.columns import number, pct, real, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.amd_kernels import load_amd_kernels
from sightline.roofline.facts import load_facts
from sightline.roofline.launch import METRICS, count_blocks, count_threads, read_limits_and_launch
from sightline.roofline.occupancy import compute_occupancy

_WAVES = "launch__waves_per_multiprocessor"

ANALYSIS = Analysis(
    "launch_shape",
    "How do grid and blocks fit the device?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        number("blocks", "blocks of the grid", "blocks"),
        number("threads", "threads of a block", "threads"),
        number("registers_per_thread", "registers of a thread"),
        size("shared_bytes", "shared memory of a block, with what the driver keeps"),
        number("sm_count", "SMs of the device"),
        number("blocks_per_sm", "blocks that fit an SM at once", "blocks"),
        real("waves", "blocks over those that fit the device at once", "waves"),
        number("tail_blocks", "blocks of the last, partial wave; 0 where the last one is full"),
        pct("tail_idle_pct", "places of all waves that the partial last wave leaves empty"),
        pct("idle_sms_pct", "SMs that get no block at all"),
        pct("idle_lanes_pct", "lanes of a block's warps that have no thread"),
        real("reported_waves", "waves as the profiler reports them", "waves"),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
)


def run(run: Run) -> pl.DataFrame:
    """One row per profiled kernel."""
    amd = {k.facts.row["kernel_id"]: k.occupancy for k in load_amd_kernels(run)}
    rows = []
    for f in load_facts(run, (*METRICS, _WAVES)):
        blocks, threads, sms = count_blocks(f), count_threads(f), f.device.get("sm_count")
        known = read_limits_and_launch(f)
        row: dict[str, Any] = {
            "kernel_id": f.row["kernel_id"],
            "name": f.row["name"],
            "blocks": blocks,
            "threads": threads,
            "registers_per_thread": f.row["registers_per_thread"],
            "shared_bytes": known[1].shared_bytes
            if known
            else (f.row["static_shared_bytes"] if f.is_amd else None),
            "sm_count": sms,
            "reported_waves": f.get(_WAVES),
        }
        if threads:
            width = f.device.get("warp_size") or 32
            warps = math.ceil(threads / width)
            row["idle_lanes_pct"] = 100 * (1 - threads / (width * warps))
        if blocks and sms:
            row["idle_sms_pct"] = 100 * max(0, sms - blocks) / sms
        held = compute_occupancy(*known) if known else amd.get(f.row["kernel_id"])
        fit = held.active_blocks if held else 0
        if blocks and sms and fit:
            row |= _waves(blocks, sms * fit) | {"blocks_per_sm": fit}
        rows.append(row)
    return pl.DataFrame(rows, schema={c.name: c.dtype for c in ANALYSIS.columns})


def _waves(blocks: int, places: int) -> dict[str, Any]:
    whole, tail = divmod(blocks, places)
    turns = whole + (tail > 0)
    return {
        "waves": blocks / places,
        "tail_blocks": tail,
        "tail_idle_pct": 100 * (turns * places - blocks) / (turns * places),
    }
