"""The launch leaves room for too few warps.

Symptom
    Registers, shared memory or block shape allow few warps per SM, and the schedulers starve.

Why it hurts
    With few warps there is nothing to run while some of them wait.

Evidence
    Theoretical occupancy and its limiter (`sightline stats occupancy`); what other settings give
    (`sightline stats occupancy_what_if`).

Threshold
    Theoretical occupancy < 80 % (Nsight Compute 2024.1, rule TheoreticalOccupancy). Ours besides:
    schedulers that issue in under 60 % of the cycles, where that was measured; a grid that fills
    this room, as room for more would stay empty (one of exactly a wave was made for it); and issue
    slots or throughputs recorded, as low occupancy alone is not harm. Estimate: 1 − occupancy, not
    more than the unused issue slots and what is left to the speed of light; global.

Fix
    Fewer registers (__launch_bounds__, smaller tiles), less shared memory per block, other block
    size.

False positives
    Kernels that reach their limit with few warps, as matrix products by tensor cores do.

References
    Nsight Compute, Kernel Profiling Guide, "Occupancy"; Volkov, "Better performance at lower
    occupancy", GTC 2010.
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_ns
from sightline.diagnosis.kernel_bounds import ISSUE as ISSUE_SLOTS
from sightline.diagnosis.kernel_bounds import WAITS, WAVES_PER_SM, Case
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import THEORETICAL_PCT, judge_kernels
from sightline.roofline.facts import CYCLES, SM_CLOCK, TIME
from sightline.roofline.launch import (
    METRICS,
    count_blocks,
    count_warps,
    read_limits_and_launch,
)
from sightline.roofline.occupancy import compute_occupancy
from sightline.subjects.ncu._room import advise_room

RULE = Rule(
    "ncu-occupancy-limit", "Low theoretical occupancy", explains=(*WAITS, "ncu-occupancy-achieved")
)
ISSUE = 0.6
# A wave of blocks that load once from device memory takes over 1 µs (`ncu-short-blocks`); three of
# them are ours.
SHORT_NS, LEAST_WAVES = 3_000, 4.0
# A thread that executes more than this has work enough: addresses, a bounds check and a reduction
# of a block take about a hundred instructions (92 and 667 in two reports; ours between them).
FEW_INSTRUCTIONS = 200.0
_ISSUE = "smsp__issue_active.avg.per_cycle_active"


def _hit(case: Case) -> Hit | None:
    known = read_limits_and_launch(case.facts)
    if known is None:
        return None
    result, issue = compute_occupancy(*known), case.get(_ISSUE)
    if result.pct >= THEORETICAL_PCT or not result.active_blocks:
        return None
    if (issue is None and case.light is None) or (issue is not None and issue >= ISSUE):
        return None
    blocks, sms = count_blocks(case.facts), case.facts.device.get("sm_count")
    if blocks and sms and blocks < sms * result.active_blocks:
        return None  # all blocks are resident at once: room for more would stay empty
    estimate = min(100 - result.pct, case.headroom, 100.0 if issue is None else 100 * (1 - issue))
    evidence = f"{result.describe()}, limited by {result.name_limiters()}"
    return Hit(case, estimate, None, evidence, ", ".join(result.limiters), is_symptom=True)


def _advise(hit: Hit) -> str:
    """Room for more warps; before it more work a thread, where a block is over at once."""
    room = advise_room(hit.subject.split(", "))
    ns, waves = hit.case.facts.ns, hit.case.get(WAVES_PER_SM)
    if not ns or not waves or waves < LEAST_WAVES or ns / waves > SHORT_NS:
        return room
    executed = _count_instructions(hit.case)
    if executed is not None and executed > FEW_INSTRUCTIONS:
        return room
    return (
        f"give each thread several items first (a grid-stride loop): a block lives "
        f"{format_ns(round(ns / waves))}, not much more than its loads take; then {room}"
    )


def _count_instructions(case: Case) -> float | None:
    """Instructions that each warp executes: issued ones a scheduler, over its warps.

    None where the clock, the schedulers' use or the SMs are not known.
    """
    facts = case.facts
    clock, seconds, issue = facts.sm_clock, facts.seconds, case.get(_ISSUE)
    percent = case.use(ISSUE_SLOTS)
    used = issue if issue is not None else None if percent is None else percent / 100
    warps, sms = count_warps(facts), facts.device.get("sm_count")
    known = read_limits_and_launch(facts)
    if not (clock and seconds and used and warps and sms and known):
        return None
    each: float = warps / (sms * known[0].schedulers)
    executed: float = used * clock * seconds / each
    return executed


check = judge_kernels(
    RULE,
    _hit,
    metrics=(*METRICS, _ISSUE),
    more=(WAVES_PER_SM, TIME, CYCLES, SM_CLOCK),
    record="--section Occupancy --section SchedulerStats",
    fix=_advise,
    verify="sightline stats occupancy AFTER: theoretical_pct, and speed_of_light to see if it "
    "helped",
)
