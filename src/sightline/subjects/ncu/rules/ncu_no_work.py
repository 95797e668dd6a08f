"""A kernel whose warps end after a handful of instructions: what was profiled did nothing.

Symptom
    A kernel that is far faster than it can be, with a profile in which nothing is busy.

Why it hurts
    Its warps leave at once: the body was compiled away as nothing of it is used, a bound or a size
    of 0 sends every thread home, or an architecture's branch is empty in this build. Its time says
    nothing of the program, and a comparison with another kernel compares with nothing.

Evidence
    Warp instructions that were executed, and warps that were launched.

Threshold
    6 instructions a warp (ours). A kernel that loads, adds and stores one element takes 12 and
    more: thread and block number, bound, two addresses, load, sum, store, exit.

Fix
    Compare the result with that of another implementation; look at the sizes that it was called
    with, and at what __CUDA_ARCH__, #if and unused results leave of the body.

False positives
    A launch of which most warps have nothing to do by design.

References
    Nsight Compute, Kernel Profiling Guide, "Instruction Statistics".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.kernel_bounds import EXECUTED, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.roofline.chart import shorten_name
from sightline.roofline.launch import count_warps

RULE = Rule("ncu-no-work", "Did nothing")
LEAST = 6.0
_STORES = "smsp__inst_executed_op_global_st.sum"


def _count(case: Case) -> tuple[float, int] | None:
    """Warp instructions for each warp, and warps; None where one was not measured."""
    warps, executed = count_warps(case.facts), case.get(*EXECUTED)
    if not warps or not executed:
        return None
    return executed / warps, warps


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name, which leads: what else is said of such a kernel is void."""
    every = load_cases(run, EXECUTED, "--section InstructionStats", (_STORES,))
    idle: dict[str, list[tuple[Case, float, int]]] = {}
    times: dict[str, float] = {}
    for case in every:
        name = case.facts.row["name"] or ""
        times[name] = times.get(name, 0) + case.time_ns
        counted = _count(case)
        # Each warp has to end: less than one instruction is a wrong figure. One warp is a marker.
        is_idle = counted is not None and 1 <= counted[0] <= LEAST and counted[1] > 1
        if counted is None or not is_idle or (case.get(_STORES) or 0) > 0:
            continue
        idle.setdefault(name, []).append((case, *counted))
    for name, cases in idle.items():
        if 2 * sum(case.time_ns for case, *_ in cases) < times[name]:
            continue  # a call or two with nothing to do, beside those that are meant
        case, each, warps = cases[0]
        yield build_finding(
            RULE,
            f"The kernel's warps end after {each:.1f} instructions each: it did no work when it "
            "was profiled, so its time is not that of the work it is meant to do.",
            Evidence(
                (
                    f"{format_several(round(each * warps), 'warp instruction')} in "
                    f"{format_several(warps, 'warp')}",
                ),
                where={"kernel": name, "kernel_ids": [case.kernel_id]},
            ),
            Advice(
                fix="check its result, the sizes that it is called with, and what the compiler "
                "left of its body (cuobjdump -sass); then profile it again",
                verify="sightline report AFTER: this finding is gone",
            ),
            title=f"{RULE.title}: {shorten_name(name)}",
            severity="warning",
            confidence="high",
            states_limit=True,
            is_asked=True,
        )
