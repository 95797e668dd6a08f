"""Code is loaded or compiled inside the window.

Symptom
    cuModuleLoad, cuLibraryLoad or link calls between kernels, and the device idle meanwhile.

Why it hurts
    The first use of a kernel loads its module (CUDA loads lazily since 11.7), JIT compilation
    even compiles it. It happens once, but in the middle of what is measured or served.

Evidence
    Gaps of which loading calls of the launching thread, or a compiler for once, take more than
    half. The gain is a replay in which these take no time. Compilers that run again and again
    are left to recompilation.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Warm up with every shape before measuring; CUDA_MODULE_LOADING=EAGER for servers; ship SASS for
    the device at hand so that PTX is not compiled; keep the Triton and Inductor caches.

False positives
    A recording of start-up on purpose.

References
    CUDA C++ Programming Guide, "Lazy Loading".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.host_changes import remove_compilation, shorten_first_launches
from sightline.timeline import causes
from sightline.timeline.api_calls import loads_code
from sightline.timeline.host_ranges import list_compiler_ranges

RULE = Rule(
    "jit-or-module-load-in-window",
    "Module loading or JIT compilation in the window",
    causes=(causes.CODE_LOADING,),
    explains_lateness=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE)
    if mine is None:
        return
    ranges = list_compiler_ranges(run)
    # As idle lists them, by how much they take.
    found = mine.gaps.group_by("cause").agg(pl.col("duration_ns").sum())
    listed = found.sort("duration_ns", "cause", descending=[True, False])["cause"].to_list()
    yield make_finding(
        run,
        RULE,
        f"For {format_pct(mine.pct)} of the window the GPU is idle while the host loads modules "
        "or compiles.",
        Loss(
            cost_ns=mine.cost_ns,
            bound_ns=mine.worst_ns,
            change=lambda nodes: shorten_first_launches(
                remove_compilation(nodes, ranges, mine.gaps, loads_code), mine.gaps
            ),
        ),
        Evidence(mine.evidence, rows=mine.rows, where=mine.where(listed[0]), calls=mine.calls),
        Advice(
            fix=choose_fix(
                run,
                "warm up with every shape before measuring; CUDA_MODULE_LOADING=EAGER for servers",
                native="launch each kernel once before the timed part; CUDA_MODULE_LOADING=EAGER",
                openmp="run each target region once before the timed part; "
                "CUDA_MODULE_LOADING=EAGER",
            ),
            verify=f"sightline stats idle AFTER: total_ns of {' and '.join(listed)}",
            cause="kernels are used for the first time inside the window",
            sources=("CUDA C++ Programming Guide: Lazy Loading",),
        ),
    )
