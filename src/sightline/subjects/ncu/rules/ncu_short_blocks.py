"""Blocks that hardly live longer than it takes to start them.

Symptom
    Many waves of blocks, each of which is over within some hundred cycles, and no unit is busy.

Why it hurts
    The grid is larger than the work: most blocks find nothing to do, or so little that starting and
    ending them is what the kernel does.

Evidence
    How long a block lives: the kernel's time by the waves that it takes.

Threshold
    0.6 µs (ours: a wave of blocks that return at once takes some 0.3 µs, one that loads from device
    memory once takes over 1 µs), four waves or more, and neither throughput at 60 % (Nsight Compute
    2024.1, rule SOLBottleneck). Estimate: what is left to the speed of light, global.

Fix
    A grid of the size of the work (count what is left, and launch for that), or a grid-stride loop
    of one wave in which each thread takes several items.

False positives
    None known: nothing else of such a kernel matters as much.

References
    CUDA Pro Tip: Write Flexible Kernels with Grid-Stride Loops; CUDA C++ Best Practices Guide,
    "Thread and Block Heuristics".
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.kernel_bounds import WAITS, WAVES_PER_SM, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.facts import TIME
from sightline.roofline.launch import count_blocks
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

RULE = Rule(
    "ncu-short-blocks",
    "Blocks that do next to nothing",
    explains=(
        *WAITS,
        "ncu-occupancy-limit",
        "ncu-occupancy-achieved",
        "ncu-one-block",
        "ncu-tail-effect",
        "ncu-imbalance",
    ),
)
LONGEST_NS, LEAST_WAVES = 600, 4.0


def _hit(case: Case) -> Hit | None:
    ns, waves, blocks = case.facts.ns, case.get(WAVES_PER_SM), count_blocks(case.facts)
    if not ns or not waves or not blocks or waves < LEAST_WAVES:
        return None
    if case.light is None or not case.waits or ns / waves > LONGEST_NS:
        return None
    evidence = (
        f"{format_several(blocks, 'block')} take {format_ns(round(ns))} in {waves:.1f} waves: each "
        f"lives {format_ns(round(ns / waves))}, hardly more than it takes to start one"
    )
    return Hit(case, case.headroom, None, evidence)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(WAVES_PER_SM, TIME),
    more=(SM_PCT, MEMORY_PCT),
    record="--section LaunchStats --section SpeedOfLight",
    fix="launch as many blocks as there is work for, or one wave with a loop over the items "
    "in each thread (grid-stride)",
    verify="sightline stats launch_shape AFTER: fewer waves",
    is_callers=True,
)
