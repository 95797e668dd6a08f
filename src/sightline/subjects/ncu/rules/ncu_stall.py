"""Warps wait mostly for one reason.

Symptom
    One stall reason takes over 30 % of the time between two issues of a warp.

Why it hurts
    While all warps wait, the scheduler issues nothing.

Evidence
    Cycles per issued instruction by reason (`sightline stats stalls`), and the source line or
    instruction with most samples (`sightline stats hot_lines`).

Threshold
    Issue active < 0.8 per cycle, and a reason over 30 % of the cycles between issues; a line is
    named where it has ≥ 10 % of the samples and the reason ≥ 30 % of those (Nsight Compute
    2024.1, rule CPIStall). Estimate: the share of the reason, not more than the unused issue slots
    and what is left to the speed of light; global.

Fix
    By reason, at the line that is named.

False positives
    selected is not a stall; not_selected means that enough warps are ready.

References
    Nsight Compute, Kernel Profiling Guide, "Warp Stall Reasons".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.kernel_bounds import WAVES_PER_SM, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import make_findings
from sightline.diagnosis.stall_advice import WARP_LATENCY, advise_on_stall
from sightline.roofline.launch import count_warps
from sightline.subjects.ncu._loads import REQUESTS, SECTORS, USED_BYTES, WHOLE_SECTOR

_FOR_LOADS = "long_scoreboard"
_WIDEN = (
    "load and store 4 to 16 bytes a thread (uchar4, uint4) and work on all of them: the same "
    "number of instructions then moves several times the data, and more of it is in flight"
)

_TAKE_MORE = (
    "give each thread several items (a grid-stride loop over one wave of blocks, loads of float4): "
    "more loads are then in flight, and fewer blocks start, reduce and end"
)
# A thread that loads so few values and ends, in more than a wave of blocks (ours: an element of
# each of two arrays).
_FEW_LOADS, _MANY_WAVES = 2, 1.5

RULE = Rule("ncu-stall", "Warp stalls", explains=("ncu-issue-slots",))
ISSUE = 0.8
SHARE_PCT = 30.0
LINE_PCT = 10.0
# A warp's load of one byte a thread asks for one sector of 32 bytes, and uses all of it; of two
# bytes for two (Nsight Compute, Kernel Profiling Guide, "Memory Tables": sectors per request).
_NARROW_SECTORS = 2.2
_ISSUE = "smsp__issue_active.avg.per_cycle_active"


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name and reason."""
    every = load_cases(
        run,
        (WARP_LATENCY,),
        "--section WarpStateStats",
        (REQUESTS, SECTORS, USED_BYTES, WAVES_PER_SM),
    )
    if not every:
        return
    by_id = {c.kernel_id: c for c in every}
    places = _places(run) if run.rows("pc_samples") else {}
    issue = {c.kernel_id: c for c in load_cases(run, (_ISSUE,), "--section SchedulerStats")}
    narrow, few = _find_narrow(every), _find_few_loads(every)
    hits = []
    stalls = run.ask("stalls").filter(
        (pl.col("family") == "counters")
        & (pl.col("share_pct") > SHARE_PCT)
        & ~pl.col("reason").is_in(["selected", "not_selected"])
    )
    for row in stalls.iter_rows(named=True):
        kernel, reason = row["kernel_id"], row["reason"]
        active = issue[kernel].get(_ISSUE)
        if active is None or active >= ISSUE:
            continue
        case = by_id[kernel]
        evidence = (
            f"{reason}: {row['value']:.1f} of {case.get(WARP_LATENCY):.1f} cycles between issues "
            f"({format_pct(row['share_pct'])})"
        )
        place = places.get((kernel, reason))
        if place:
            evidence += f"; most at {place}"
        if reason == _FOR_LOADS and kernel in narrow:
            evidence += f"; a thread loads {format_several(narrow[kernel], 'byte')} at once"
        elif reason == _FOR_LOADS and kernel in few:
            evidence += f"; a thread loads {format_several(few[kernel], 'value')} and ends"
        estimate = min(row["share_pct"], case.headroom, 100 * (1 - active))
        hits.append(Hit(case, estimate, None, evidence, reason, is_symptom=True))
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"Warps wait {advise_on_stall(h.subject)[0]}: {h.evidence}.",
        lambda h: _advise(h, narrow, few),
        "sightline stats stalls AFTER: a smaller share of this reason",
    )


def _advise(hit: Hit, narrow: Mapping[int, int], few: Mapping[int, int]) -> str:
    usual = advise_on_stall(hit.subject)[1]
    if hit.subject != _FOR_LOADS:
        return usual
    if hit.case.kernel_id in narrow:
        return _WIDEN
    return f"{_TAKE_MORE}; {usual}" if hit.case.kernel_id in few else usual


def _find_few_loads(cases: Sequence[Case]) -> dict[int, int]:
    """The kernels whose threads load a value or two and end, wave by wave, and how many."""
    found = {}
    for case in cases:
        warps, loads = count_warps(case.facts), case.count_opcodes("LDG")
        if not warps or not loads or (case.get(WAVES_PER_SM) or 0.0) < _MANY_WAVES:
            continue
        if (each := round(loads / warps)) <= _FEW_LOADS:
            found[case.kernel_id] = max(1, each)
    return found


def _find_narrow(cases: Sequence[Case]) -> dict[int, int]:
    """The kernels whose loads from global memory are of one or two bytes a thread, and how many."""
    found = {}
    for case in cases:
        requests, sectors, used = (case.get(m) for m in (REQUESTS, SECTORS, USED_BYTES))
        if not requests or sectors is None or used is None or used < WHOLE_SECTOR:
            continue
        if sectors <= _NARROW_SECTORS * requests:
            found[case.kernel_id] = max(1, round(sectors / requests))
    return found


def _places(run: Run) -> dict[tuple[int, str], str]:
    """Of each kernel and reason, the line or instruction with most samples, if it stands out."""
    found: dict[tuple[int, str], str] = {}
    hot = run.ask("hot_lines").filter(
        (pl.col("share_pct") >= LINE_PCT)
        & (pl.col("reason_pct") >= SHARE_PCT)
        & (pl.col("line").is_not_null() | pl.col("offset").is_not_null())
    )
    for row in hot.iter_rows(named=True):
        where = (
            f"{row['file']}:{row['line']}"
            if row["line"] is not None
            else f"{row['opcode'] or 'instruction'} at byte {row['offset']}"
        )
        text = f"{where} ({format_pct(row['share_pct'])} of the samples)"
        found.setdefault((row["kernel_id"], row["reason"]), text)
    return found
