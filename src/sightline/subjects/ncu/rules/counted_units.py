"""Which unit nvprof's counters show to work most.

Symptom
    A table of nvprof's metrics, with levels such as Mid (5) and Low (1), and no times.

Why it hurts
    The busiest unit is what a kernel is bound by, if it works much; where none does, the
    kernel waits.

Evidence
    The metrics *_utilization, on nvprof's scale from 0 to 10; what instructions there are; issue
    slots, activity and occupancy.

Threshold
    The highest of all levels. Up to 3 (nvprof calls it Low) no unit holds a kernel up.

Fix
    Less work for that unit.

False positives
    Levels are means over all launches of a kernel, and of the whole GPU: one launch, or one SM, may
    differ. Without times nobody can say what it costs.

References
    CUDA Profiler User's Guide, "Metrics Reference": utilization on a scale of 0 to 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, abstain, build_finding

RULE = Rule("counted-units", "The busiest unit")

MOST_KERNELS = 3
LOW, MID = 3, 6  # CUDA Profiler User's Guide: Low is up to 3, Mid up to 6, High up to 9, Max 10
_MOSTLY = 0.4  # of all instructions: more than two fifths are of one kind
_LAUNCHES = "nvprof__invocations"  # as formats/nvidia/nvidia_text/counters.py writes it
_ARITHMETIC, _CACHE, _DRAM, _HOST, _CONTROL = "arithmetic", "cache", "dram", "host", "control"


class _Unit(NamedTuple):
    """What a metric's unit is called, and of which kind it is."""

    words: str
    kind: str


# Metrics Reference, for capabilities 3.x to 7.x; L1 and shared memory are one unit on some.
_UNITS = {
    "alu_fu_utilization": _Unit("the arithmetic units", _ARITHMETIC),
    "single_precision_fu_utilization": _Unit("the single-precision units", _ARITHMETIC),
    "double_precision_fu_utilization": _Unit("the double-precision units", _ARITHMETIC),
    "half_precision_fu_utilization": _Unit("the half-precision units", _ARITHMETIC),
    "special_fu_utilization": _Unit("the special function units", _ARITHMETIC),
    "cf_fu_utilization": _Unit("the control-flow units", _CONTROL),
    "ldst_fu_utilization": _Unit("the load/store units", _CACHE),
    "tex_fu_utilization": _Unit("the texture units", _CACHE),
    "l1_shared_utilization": _Unit("L1 and shared memory", _CACHE),
    "shared_utilization": _Unit("shared memory", _CACHE),
    "tex_utilization": _Unit("the unified cache", _CACHE),
    "l2_utilization": _Unit("L2", _CACHE),
    "dram_utilization": _Unit("device memory", _DRAM),
    "sysmem_utilization": _Unit("the host's memory", _HOST),
}
_INSTRUCTIONS = {
    "inst_integer": "integer arithmetic",
    "inst_fp_32": "single precision",
    "inst_fp_64": "double precision",
    "inst_fp_16": "half precision",
    "inst_bit_convert": "conversions",
    "inst_control": "control flow",
    "inst_compute_ld_st": "loads and stores",
    "inst_misc": "others",
    "inst_inter_thread_communication": "exchange between threads",
}
_FIXES = {
    _ARITHMETIC: "fewer instructions per result: move invariants out of the loop, let several "
    "results of a thread share operands, and use fast intrinsics where the accuracy allows them",
    _CACHE: "fewer accesses: neighbors in registers or shared memory, wider loads (float4), and "
    "accesses of a warp in one line",
    _DRAM: "fewer bytes: reuse what was loaded, use narrower types, and fuse kernels that read "
    "the same data",
    _HOST: "keep on the GPU what kernels read: mapped host memory is read over the link each time",
    _CONTROL: "fewer branches: unroll loops, and treat borders apart from the inner part",
}
_INTEGER_FIX = (
    "less index arithmetic: indices of two dimensions instead of division and remainder, what does "
    "not change out of the loop, padded borders instead of tests, and several results a thread"
)
_WAITING_FIX = (
    "more work in flight: more warps (fewer registers or less shared memory a block), or several "
    "independent results a thread"
)
_BESIDE = (
    ("issue_slot_utilization", "issue slots used"), ("sm_efficiency", "SMs active"),
    ("warp_execution_efficiency", "threads of a warp active"),
    ("branch_efficiency", "branches uniform"), ("gld_efficiency", "load efficiency"),
    ("l2_l1_read_hit_rate", "L2 hits"), ("l2_tex_hit_rate", "L2 hits"),
)  # fmt: skip


def check(run: Run) -> Iterator[Finding]:
    """One finding for each of the kernels that execute most; one abstention without any level."""
    kernels = _list_kernels(run)
    if not kernels:
        return
    known = [(name, ns, of) for name, ns, of in kernels if any(metric in _UNITS for metric in of)]
    if not known:
        names = sorted({metric for _, _, of in kernels for metric in of if "__" not in metric})
        yield abstain(
            RULE,
            f"{', '.join(names[:4])} alone do not say which unit holds a kernel up, and the table "
            "has no times; profile it:  ncu --set full PROGRAM  (before Volta:  nvprof --metrics "
            "all)",
        )
    for name, ns, of in known[:MOST_KERNELS]:
        yield _judge(name, ns, of)


def _list_kernels(run: Run) -> list[tuple[str, int, dict[str, float]]]:
    """Kernels that nvprof counted, each with its metrics; which executes most comes first."""
    if not run.rows("kernel_metrics"):
        return []
    metrics = run.table("kernel_metrics", ["kernel_id", "metric", "value"]).with_columns(
        pl.col("metric").cast(pl.String)
    )
    counted = metrics.filter(pl.col("metric") == _LAUNCHES).select("kernel_id")
    if counted.is_empty():
        return []
    names = run.table("profiled_kernels", ["kernel_id", "name", "duration_ns"])
    rows = metrics.join(counted, on="kernel_id", how="semi").drop_nulls("value")
    found = [
        (str(row["name"]), row["duration_ns"] or 0, dict(part.select("metric", "value").rows()))
        for (kernel,), part in rows.group_by("kernel_id", maintain_order=True)
        for row in names.filter(kernel_id=kernel).rows(named=True)
    ]
    found.sort(key=lambda k: (-k[1] * k[2][_LAUNCHES], -_count_executed(k[2]), k[0]))
    return found


def _count_executed(of: dict[str, float]) -> float:
    return of[_LAUNCHES] * of.get("inst_executed", 1.0)


def _judge(name: str, duration_ns: int, of: dict[str, float]) -> Finding:
    levels = {metric: of[metric] for metric in _UNITS if metric in of}
    top = max(levels, key=lambda metric: levels[metric])
    mix = {words: of[metric] for metric, words in _INSTRUCTIONS.items() if of.get(metric)}
    whole = sum(mix.values())
    main = max(mix, key=lambda words: mix[words]) if mix else ""
    is_integer = main == _INSTRUCTIONS["inst_integer"] and mix[main] >= _MOSTLY * whole
    unit = _UNITS[top]
    works = levels[top] > LOW
    short = shorten_kernel_name(name)
    if works:
        fix = _INTEGER_FIX if unit.kind == _ARITHMETIC and is_integer else _FIXES[unit.kind]
        first = f"In `{short}` {unit.words} work most: {_say_level(levels[top])} of 10."
        if levels[top] > MID:
            first = f"`{short}` is bound by {unit.words}: {_say_level(levels[top])} of 10."
        if (library := find_library(name)) is not None:
            fix = f"this is {library}'s code: other shapes, layouts or types of the call"
    else:
        fix = _WAITING_FIX
        first = f"No unit is busy in `{short}`, the busiest is {unit.words}: it waits."
    return build_finding(
        RULE,
        first,
        Evidence(
            list(_list_evidence(of, levels, mix, duration_ns)),
            where={"kernel": name},
        ),
        Advice(
            fix=f"{fix}; to see what it costs, run it without counters:  nvprof PROGRAM  (before "
            "Volta), or  nsys profile --stats=true PROGRAM",
            verify="sightline findings AFTER",
        ),
        severity="info",
        confidence="low",
        states_limit=True,
    )


def _list_evidence(
    of: dict[str, float],
    levels: dict[str, float],
    mix: dict[str, float],
    duration_ns: int,
) -> Iterator[str]:
    ordered = sorted(levels, key=lambda metric: -levels[metric])
    yield ", ".join(f"{_UNITS[m].words} {_say_level(levels[m])}" for m in ordered[:4]) + " of 10"
    whole = sum(mix.values())
    if whole:
        parts = sorted(mix, key=lambda words: -mix[words])[:3]
        yield "instructions: " + ", ".join(
            f"{words} {format_pct(100 * mix[words] / whole)}" for words in parts
        )
    beside = [f"{words} {format_pct(of[metric])}" for metric, words in _BESIDE if metric in of]
    if "achieved_occupancy" in of:
        beside.append(f"occupancy {format_pct(100 * of['achieved_occupancy'])}")
    if beside:
        yield ", ".join(beside)
    if duration_ns:
        launches = format_several(int(of[_LAUNCHES]), "launch", "launches")
        yield f"{launches} of {format_ns(duration_ns)}: no more than that can be gained"
    else:
        yield "counters alone do not show how long it takes, or what a change gains"


def _say_level(level: float) -> str:
    word = "idle" if not level else "low" if level <= LOW else "mid" if level <= MID else "high"
    return f"{level:.0f} ({word})"
