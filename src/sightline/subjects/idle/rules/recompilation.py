"""The program compiles again while it runs: graphs, kernels or PTX, in steps after the first.

Symptom
    Ranges of torch.compile, Triton, NVRTC or the driver's JIT compiler between steps, again and
    again, with the device idle meanwhile.

Why it hurts
    A compilation takes from milliseconds to minutes, and the device has nothing to do. Dynamo
    compiles anew whenever a guard fails: another shape, another Python value, another module.

Evidence
    Idle gaps of which a compiler on the launching thread takes more than half, in marked steps
    after the first: ranges of Dynamo and Inductor ((dynamo_timed), CompileId,
    torch/_dynamo/convert_frame, torch/_inductor/compile_fx), of Triton (compiler.compile) and
    nvFuser, calls of NVRTC, and the driver's JIT as Nsight Systems records it. The gain is a replay
    without this time.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: its threshold for copies and communication;
    idle is the same loss), in two gaps or more: once may be warm-up, and is left to
    jit-or-module-load-in-window.

Fix
    Run with TORCH_LOGS=recompiles, which names the guard that failed. Mark what changes as dynamic
    (torch._dynamo.mark_dynamic, dynamic=True), pad to few shapes, keep Python values out of the
    compiled function; keep the caches of Inductor and Triton between runs.

False positives
    A recording that covers warm-up of several shapes on purpose: choose a later --window.

References
    PyTorch documentation, "Dealing with Recompilations" (torch.compile troubleshooting);
    NVIDIA Nsight Systems User Guide, "CUDA overhead" (Driver JIT compiler).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.host_changes import remove_compilation
from sightline.timeline import causes
from sightline.timeline.compiling import list_compiling_spans
from sightline.timeline.host_ranges import is_compiler, list_compiler_ranges

RULE = Rule(
    "recompilation", "Recompilation in steady state", causes=(causes.RECOMPILATION,), over_time=True
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE)
    if mine is None:
        return
    ranges, spans = list_compiler_ranges(run), list_compiling_spans(run)

    yield make_finding(
        run,
        RULE,
        f"The GPU is idle for {format_pct(mine.pct)} of the window while the host recompiles: "
        f"{format_several(mine.gaps.height, 'time')}.",
        Loss(
            cost_ns=mine.cost_ns,
            bound_ns=mine.worst_ns,
            change=lambda nodes: remove_compilation(nodes, spans, mine.gaps, is_compiler),
        ),
        Evidence(
            [mine.evidence[0], *_describe_compilations(ranges)],
            rows=mine.rows,
            where=mine.where("compilation"),
            calls=mine.calls,
        ),
        Advice(
            fix=choose_fix(
                run,
                "see what is new each time (a shape, a type, a value), and pad to few shapes, or "
                "keep changing values out of the compiled part",
                pytorch="TORCH_LOGS=recompiles names the reason; then use mark_dynamic, pad to few "
                "shapes, or move changing Python values out of the compiled function",
                jax="JAX_EXPLAIN_CACHE_MISSES=1 names the reason; then pad to few shapes, and "
                "keep changing values out of static_argnums",
            ),
            verify="sightline stats idle_rules AFTER: no gap of rule recompilation",
            cause="a guard failed or a shape was new; the recording does not show which",
            sources=("PyTorch: Dealing with Recompilations",),
        ),
    )


def _describe_compilations(ranges: pl.DataFrame) -> list[str]:
    """The compilers' ranges by name, the longest first."""
    top = (
        ranges.group_by("name")
        .agg(n=pl.len(), ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("ns", "name", descending=[True, False])
        .head(3)
    )
    return [f"{format_count(n)} × {name}, {format_ns(ns)}" for name, n, ns in top.rows()]
