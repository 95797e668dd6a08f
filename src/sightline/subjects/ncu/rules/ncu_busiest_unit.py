"""What a kernel is bound by, where a unit is busy but not at its limit.

Symptom
    A unit at 60 to 80 % of its peak; the L1 above it, where its hit rate was not measured, and the
    SM where it issues instructions nearly all the time and no pipe is as busy.

Why it hurts
    It need not: such a kernel is nearer to its unit's limit than to waiting. More warps, fewer
    stalls or a higher occupancy can gain no more than what is left of that unit.

Evidence
    The throughputs of the speed of light, and what the SM's is made of: its pipes, its issue slots
    and its constant cache.

Threshold
    60 % (Nsight Compute 2024.1, rule SOLBottleneck: under it a kernel is latency bound) to 80 %,
    from where ncu-pipe-limit, ncu-memory-limit and ncu-l1-limit say it.

Fix
    Less work for that unit; what else is found about the kernel says where that is possible. Of a
    memory unit also more warps that ask it at once, where the block's size keeps the occupancy
    under 80 % (Nsight Compute 2024.1, rule TheoreticalOccupancy) and nine tenths of what fits are
    there (ours).

False positives
    None: it is a note.

References
    Nsight Compute, Kernel Profiling Guide, "Speed Of Light".
"""

from __future__ import annotations

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import (
    DRAM,
    ISSUE,
    L1,
    L2,
    LIMIT_PCT,
    METRICS,
    PARTS,
    SM,
    UNITS,
    Case,
    name_unit,
)
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.pipe_advice import relieve_pipe
from sightline.diagnosis.profiled import THEORETICAL_PCT, advise_library, judge_kernels
from sightline.roofline.launch import ACHIEVED, read_limits_and_launch
from sightline.roofline.launch import METRICS as LAUNCH
from sightline.roofline.occupancy import compute_occupancy
from sightline.roofline.placement import LATENCY_PCT
from sightline.subjects.ncu._room import advise_room

RULE = Rule("ncu-busiest-unit", "Bound by its busiest unit")


def _hit(case: Case) -> Hit | None:
    now = case.busiest
    if now is None or case.light is None or now.pct < LATENCY_PCT:
        return None
    part = _find_busiest_part(case) if now.unit == SM else None
    if case.light >= LIMIT_PCT and not (
        (now.unit == L1 and case.get(_HITS) is None)
        or (part == ISSUE and (case.use(ISSUE) or 0.0) >= LIMIT_PCT)
    ):
        return None  # others say it: of the SM which pipe, and of the L1 what its accesses are
    text = f"{now.unit} is the busiest unit, at {format_pct(now.pct)} of its peak"
    if part is not None:
        text += f": {name_unit(part)}, at {format_pct(case.use(part) or 0.0)}"
    asked = case.get(_REQUESTS) if now.unit == L1 else None
    stage = case.get(_DATA) if now.unit == L1 else None
    few = LIMIT_PCT if stage is None else min(LIMIT_PCT, max(stage, _MANY))
    if asked is not None and asked >= few:
        text += f": {format_pct(asked)} of the load and store instructions that it can take"
        return Hit(case, 0.0, 0.0, text, _LOADS)
    if stage is not None and stage < now.pct - _APART:
        text += (
            f", and its data stage at {format_pct(stage)}: it is its accesses that keep it busy, "
            "not their data"
        )
        return Hit(case, 0.0, 0.0, text, _TAGS)
    return Hit(case, 0.0, 0.0, text, now.unit)


def _find_busiest_part(case: Case) -> str | None:
    """The pipe of the SM that is busiest, or its issue slots; None where none was measured."""
    parts = {part: pct for part in PARTS if (pct := case.use(part)) is not None}
    return max(parts, key=lambda p: parts[p], default=None)


# The L1 looks up each sector's tag, and moves data in wavefronts: where the first is far above the
# second, an access of a warp touches many sectors (ours: 20 points).
_HITS = "l1tex__t_sector_hit_rate.pct"
_DATA = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
_TAGS, _APART = "the L1's tags", 20.0
# Instructions of the LSU that the L1 takes in, whatever each of them moves: where they take as much
# of their peak as the data stage does of its own, each is answered in a turn or two (kernels with 9
# sectors a request: nine times as much for the stage). Half of the peak is many (ours).
_REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
_LOADS, _MANY = "loads and stores", 50.0
_NEARLY = 0.9  # ours: of the warps that fit; fewer are there for another reason
# What takes work off each unit (CUDA C++ Best Practices Guide, "Memory Optimizations").
_LESS = {
    _LOADS: "fewer loads and stores: wider ones (float4), values kept in registers, flat arrays in "
    "place of pointers to follow, and less to look at for each result (a tree or a grid over what "
    "is searched)",
    _TAGS: "let neighboring threads access neighboring addresses, so that a warp's access "
    "touches few sectors; load tiles through shared memory (a library's product does both); ncu "
    "--section MemoryWorkloadAnalysis_Tables names the accesses",
    L1: "fewer and wider accesses to shared memory and L1 (float4 loads, a larger tile of results "
    "in each thread's registers, no bank conflicts), or tensor cores for products",
    L2: "reuse in shared memory or registers what is read again, and read whole sectors",
    DRAM: "move fewer bytes: fuse passes, smaller types, reuse in shared memory",
}


def _advise(hit: Hit) -> str:
    """What takes work off the unit that is named, and what lets more warps ask it at once."""
    library = find_library(hit.case.facts.row["name"] or "")
    if library is not None:
        return advise_library(library)
    less = _LESS.get(hit.subject)
    if hit.subject == SM:
        less = relieve_pipe(_find_busiest_part(hit.case) or ISSUE)
    advice = f"give that unit less work: {less}" if less else "give that unit less work"
    room = None if hit.subject == SM else _find_room(hit.case)
    return f"{room}; or {advice}" if room else advice


def _find_room(case: Case) -> str | None:
    """How a memory unit that is not at its limit gets more requests at once.

    None where fewer are there than would fit, or where it is not the size of the blocks that keeps
    warps away: registers and shared memory are spent on what need not be loaded again.
    """
    known, achieved = read_limits_and_launch(case.facts), case.get(ACHIEVED)
    if known is None or achieved is None or (case.light or 0.0) >= LIMIT_PCT:
        return None
    result = compute_occupancy(*known)
    if result.pct >= THEORETICAL_PCT or achieved < _NEARLY * result.pct:
        return None
    if not {"blocks", "warps"}.issuperset(result.limiters):
        return None
    return (
        f"let more warps ask it at once: {result.describe()}, limited by "
        f"{result.name_limiters()}, and {format_pct(achieved)} are there: "
        f"{advise_room(result.limiters)}"
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=[name for names in UNITS.values() for name in names],
    more=(*METRICS, *LAUNCH, ACHIEVED, _HITS, _DATA, _REQUESTS),
    record="--section SpeedOfLight",
    fix=_advise,
    verify="sightline stats speed_of_light AFTER: a shorter duration",
    about_limit=True,
)
