"""The kernels were built for a debugger: what the profile shows is not the program's speed.

Symptom
    Many instructions for little work, warps that wait between instructions of fixed length ("wait"
    leads the stall reasons), local memory for every variable.

Why it hurts
    With -G the compiler optimizes nothing, and each variable has its place in memory: kernels take
    several times as long, and for other reasons than in the program that people run.

Evidence
    The report holds the GPU's code: its ELF file has a section for the registers of variables,
    which is written for a debugger (-G, --device-debug) and not for line tables (-lineinfo).

Threshold
    None: a module is built so, or not. Double precision is named beside it where its pipe is used
    by 60 % (Nsight Compute, rule HighPipeUtilization) and has an eighth of the rate of single
    precision or less (as for ncu-fp64): no build changes that. Nor does one change a launch of one
    thread, of blocks for few SMs, or of warps that find nothing to do: where that costs half of the
    profiled time (ours) this is said behind it.

Fix
    Build without -G; -lineinfo keeps the source lines in profiles (CMake: no Debug build type;
    Visual Studio: "Generate GPU Debug Information: No").

False positives
    A report may hold modules that no profiled kernel is of.

References
    NVIDIA CUDA Compiler Driver NVCC, --device-debug ("turns off all optimizations on device code").
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core import registry
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.errors import MissingDataError
from sightline.roofline.peaks import find_compute_peak
from sightline.roofline.placement import LATENCY_PCT
from sightline.roofline.placement import METRICS as PLACED

RULE = Rule("ncu-debug-build", "Built for debugging")
RATIO = 8.0  # as for ncu-fp64
MOST_PCT = 50.0
_OF_LAUNCHES = ("ncu_lone_warps", "ncu_idle_warps", "ncu_block_size", "ncu_small_grid")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding. It comes first, as others are of code that nobody runs: most of them."""
    if not run.rows("profiled_kernels"):
        return
    rows = run.table("quality").filter(pl.col("kind") == "debug_build")
    if rows.is_empty():
        return
    double = find_double(run)
    leads = not is_launch_at_fault(run)
    yield build_finding(
        RULE,
        f"{rows.item(0, 'text')[:1].upper()}{rows.item(0, 'text')[1:]}: this is not the speed of "
        "the optimized program.",
        Evidence(
            ("the code in the report has a section that only a debugger needs", *double),
        ),
        Advice(
            fix="build without -G (nvcc -O3 -lineinfo keeps the source lines), and profile again "
            "before anything is tuned"
            + ("; compute in single precision where the result allows it" if double else ""),
            verify="sightline report AFTER: this finding is gone",
            sources=("NVCC: --device-debug turns off all optimizations on device code",),
        ),
        severity="warning" if leads else "info",
        confidence="high",
        states_limit=leads,
        is_asked=leads,
    )


def find_double(run: Run) -> list[str]:
    """What holds in any build: double precision on a GPU that has little of it."""
    try:
        every = load_cases(run, PLACED, "--section SpeedOfLight")
    except MissingDataError:
        return []
    longest = max(every, key=lambda case: case.facts.ns or 0, default=None)
    return [] if longest is None else list(_describe_double(longest))


def is_launch_at_fault(run: Run) -> bool:
    """Whether how kernels are launched costs most of the profiled time, which no build changes."""
    return any(
        sum(f.cost_pct or 0 for f in _ask(rule, run) if f.confidence != "low") >= MOST_PCT
        for rule in _OF_LAUNCHES
    )


def _ask(rule: str, run: Run) -> list[Finding]:
    try:
        check = registry.load("rules", rule).check
        return [found for found in check(run) if not found.abstained]
    except MissingDataError:
        return []


def _describe_double(case: Case) -> Iterator[str]:
    slow, fast = (find_compute_peak(case.facts, p).best for p in ("fp64", "fp32"))
    pipe = case.use("fp64") or 0.0
    if slow and fast and fast >= RATIO * slow and pipe >= LATENCY_PCT:
        name = shorten_kernel_name(case.facts.row["name"])
        yield (
            f"the FP64 pipe is at {format_pct(pipe)} of its peak in {name}, and has 1/"
            f"{fast / slow:.0f} of the fp32 rate: double precision will bind it in any build"
        )
