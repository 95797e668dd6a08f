"""A kernel launches fewer blocks than the device can hold.

Symptom
    The grid has fewer blocks than the device has SMs: some SMs get nothing to do. Or each SM has
    fewer blocks than it has room for, and waits.

Why it hurts
    SMs without a block idle for the whole kernel. With few warps on an SM there is nothing to run
    while some of them wait.

Evidence
    Blocks and SM count (`sightline stats launch_shape`).

Threshold
    Blocks < SMs (Nsight Compute 2024.1, rule LaunchConfiguration). Estimate: (SMs − blocks) /
    SMs, global. Or less than one wave, where neither throughput reaches 60 % (rule SOLBottleneck):
    1 − waves, local, weighed with what is left to the speed of light. The larger of the two.

Fix
    Split the work into more, smaller blocks; process several inputs in one launch; run
    independent kernels in other streams beside it. Where the report has launches of the kernel in
    blocks of several sizes, some with one for each SM, that took as long: more threads.

False positives
    Kernels that run beside others, and those of a few microseconds that are launch-bound anyway.

References
    Nsight Compute, Kernel Profiling Guide, "Launch Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from math import prod
from statistics import median

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_several
from sightline.diagnosis.kernel_bounds import WAITS, WAVES_PER_SM, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.launch import count_blocks, count_threads
from sightline.subjects.ncu._shapes import group_shapes

RULE = Rule(
    "ncu-small-grid",
    "Grid too small for the GPU",
    explains=(*WAITS, "ncu-imbalance", "ncu-occupancy-achieved", "ncu-occupancy-limit"),
)
_MOST_IDLE_PCT = 50.0  # ours: beyond it, that SMs are empty is what to say
_MORE_BLOCKS = (
    "use more, smaller blocks (for products smaller tiles or split-K), or give the launch more "
    "work; run independent kernels concurrently"
)
_ONE_LAUNCH = (
    "one thread does all of it: let one launch take all items, a thread each, in place of a loop "
    "in the kernel or a launch for each item; what only sets up fields or pointers, fill on the "
    "host and copy once"
)
_METRICS = ("launch__grid_size", "gpu__time_duration.sum", WAVES_PER_SM)
_SECTION = "--section LaunchStats"
# Ours, as of blocks that are faster (`ncu-block-shape`): launches of one shape differ by less.
ALIKE = 1.1


def _hit(case: Case) -> Hit | None:
    blocks, sms = count_blocks(case.facts), case.facts.device.get("sm_count")
    if not blocks or not sms:
        return None
    threads = count_threads(case.facts)
    of = f" of {format_several(threads, 'thread')}" if threads else ""
    evidence = f"{format_several(blocks, 'block')}{of} on {format_count(sms)} SMs"
    idle_pct = max(0.0, 100 * (sms - blocks) / sms)
    if blocks < sms:
        evidence += f": {format_count(sms - blocks)} of the SMs stay idle"
    waves = case.get(WAVES_PER_SM)
    # Where no throughput was collected, the few blocks may have a unit at its limit.
    is_free = case.waits and case.busiest is not None
    room_pct = 100 * (1 - waves) if waves and waves < 1 and is_free else 0.0
    fits = round(blocks / sms / waves) if waves else 0
    if idle_pct < _MOST_IDLE_PCT and room_pct * case.headroom / 100 > idle_pct and fits > 1:
        evidence += (
            f", {waves:.2f} waves: {blocks / sms:.1f} blocks an SM on average, and {fits} would fit"
        )
        return Hit(case, room_pct, case.headroom, evidence)
    if not idle_pct:
        return None
    return Hit(case, idle_pct, None, evidence, relieves_limit=True)


def _advise(hit: Hit, find_tried: Callable[[], Mapping[str, str]]) -> str:
    facts = hit.case.facts
    if (shapes := find_tried().get(facts.row["name"] or "")) is not None:
        return (
            f"more threads, not other blocks ({shapes} took as long): a warp or a block for what "
            "one thread does now, its loop split among them"
        )
    if count_blocks(facts) == 1 and count_threads(facts) == 1:
        return f"{_ONE_LAUNCH}; {_MORE_BLOCKS}"
    return _MORE_BLOCKS


def _find_tried(run: Run) -> dict[str, str]:
    """Kernels whose launches in smaller blocks, a block and more for each SM, took as long.

    By name, the blocks' sizes.
    """
    tried = {}
    cases = [c for c in load_cases(run, _METRICS, _SECTION) if c.facts.ns]
    for name, _, shapes in group_shapes(cases):
        times = [median(c.time_ns for c in each) for each in shapes.values()]
        fills = any(_fills_sms(case) for each in shapes.values() for case in each)
        if len(shapes) > 1 and fills and max(times) <= ALIKE * min(times):
            sizes = sorted({prod(shape) for shape in shapes})
            tried[name] = (
                f"blocks of {format_count(sizes[0])} to {format_several(sizes[-1], 'thread')}"
            )
    return tried


def _fills_sms(case: Case) -> bool:
    return (count_blocks(case.facts) or 0) >= (case.facts.device.get("sm_count") or math.inf)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    yield from judge_kernels(
        RULE,
        _hit,
        metrics=_METRICS,
        record=_SECTION,
        fix=partial(_advise, find_tried=cache(partial(_find_tried, run))),
        verify="sightline stats launch_shape AFTER: idle_sms_pct is 0",
        needs_sm_count=True,
        is_callers=True,
    )(run)
