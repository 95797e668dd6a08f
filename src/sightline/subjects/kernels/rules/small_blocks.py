"""Blocks of few threads leave lanes, schedulers or places for warps of every multiprocessor empty.

Symptom
    A kernel with blocks enough, each with fewer threads than a warp, or no multiple of one.

Why it hurts
    A warp of 32 is issued whole, whatever number of its lanes has a thread. A multiprocessor has
    four schedulers, each with its own warps, and holds 16 to 32 blocks: of tiny ones its warps are
    never enough to hide latency.

Evidence
    Grids, blocks, registers and the device's limits. What is filled is the product of three parts:
    of the lanes, those with a thread; of a multiprocessor's schedulers, those with a warp; and
    where its number of blocks is what keeps warps away, how near they come to half of what it
    holds. The gain is a replay in which each such kernel takes that part of its time, but no less
    than an empty kernel, nor than the same kernel in a fuller shape in the same recording, which is
    quoted. It is an upper bound: a kernel at the memory's limit gains less.

Threshold
    Less than nine tenths filled (ours: the end of a block that is not full costs a tenth in many
    healthy kernels), kernels of 10 µs and more (ours: several times a launch) that the program
    launches itself, alone on the device. Over half of the time filled: low confidence. What could
    be saved is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    128 to 256 threads a block, a multiple of the warp, neighboring threads along x on neighboring
    addresses.

False positives
    Kernels whose warps work as one, with one thread a block only to start others.

References
    CUDA C++ Best Practices Guide, "Thread and Block Heuristics" (a multiple of 32 threads, 128 to
    256 to begin with) and "Occupancy" (50 %); CUDA C++ Programming Guide, "Technical
    Specifications per Compute Capability" (blocks of a multiprocessor).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_note, format_pct, format_several
from sightline.subjects.kernels.launch_words import find_launcher
from sightline.subjects.kernels.rules._launches import (
    FULL_SHARE,
    LEAST_NS,
    keep_factor,
    list_filled,
    name_launch,
    pick_longest,
    quote_fuller,
)
from sightline.subjects.kernels.rules._shared import find_shorter_kernels

RULE = Rule("small-blocks", "Blocks of few threads")

HALF_SHARE = 0.5
_GUIDE = "CUDA C++ Best Practices Guide: Thread and Block Heuristics"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    small = list_filled(run).filter(
        pl.col("alone") & pl.col("own"),
        pl.col("sms") >= 1,
        pl.col("share") < FULL_SHARE,
        pl.col("length") >= LEAST_NS,
    )
    if small.is_empty():
        return
    kept = small.with_columns(factor=keep_factor(pl.col("share")))
    longest = pick_longest(kept)
    launcher = find_launcher(longest["name"])
    found = find_shorter_kernels(
        run,
        RULE,
        kept,
        f"{name_launch(longest)}, and takes {{share}} of the window more than with full warps.",
        cause="a warp is issued whole, and a multiprocessor holds a limited number of blocks",
        fix=launcher.block_size,
        sources=(_GUIDE, launcher.source),
        extra=[_describe_parts(longest), *quote_fuller(kept)],
        confidence="medium" if longest["share"] <= HALF_SHARE else "low",
        is_bound=True,
    )
    if found:
        yield found


def _describe_parts(row: dict[str, Any]) -> str:
    """'16 of 32 lanes have a thread; blocks of 1 warp: …', as far as each part lacks something."""
    threads, size = row["threads"], row["warp_size"]
    parts = []
    if row["lanes"] < 1:
        warps = -(-threads // size)
        parts.append(
            format_note(threads, f"of {format_several(warps * size, 'lane')} have a thread")
        )
    if row["schedulers"] < 1:
        parts.append(f"warps for {format_pct(100 * row['schedulers'])} of the schedulers")
    if row["slots"] < 1:
        each = format_several(-(-threads // size), "warp")
        parts.append(f"all blocks of {each} that fit a multiprocessor leave most of it empty")
    return "; ".join(parts)
