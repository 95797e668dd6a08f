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
    None: a module is built so, or not.

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

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import Advice, Evidence, build_finding

RULE = Rule("ncu-debug-build", "Built for debugging")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, which comes first: all others are of code that nobody runs."""
    if not run.rows("profiled_kernels"):
        return
    rows = run.table("quality").filter(pl.col("kind") == "debug_build")
    if rows.is_empty():
        return
    yield build_finding(
        RULE,
        f"{rows.item(0, 'text')[:1].upper()}{rows.item(0, 'text')[1:]}: the program that is meant "
        "to be fast is another one.",
        Evidence(("the code in the report has a section that only a debugger needs",)),
        Advice(
            fix="build without -G (nvcc -O3 -lineinfo keeps the source lines), and profile again "
            "before anything is tuned",
            verify="sightline report AFTER: this is gone",
            sources=("NVCC: --device-debug turns off all optimizations on device code",),
        ),
        severity="warning",
        confidence="high",
        states_limit=True,
        is_asked=True,
    )
