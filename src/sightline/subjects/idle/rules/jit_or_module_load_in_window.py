"""Code is loaded, compiled or tuned inside the window.

Symptom
    cuModuleLoad, cuLibraryLoad or link calls between kernels, a compiler's ranges (XLA's,
    Dynamo's, Triton's, nvFuser's), or CPU samples in a compiler's libraries (Julia's, LLVM's,
    NVRTC's, MIOpen's, Intel's), and the device idle meanwhile.

Why it hurts
    The first use of a kernel loads its module (CUDA loads lazily since 11.7), a JIT compiles for
    each function, type or shape that is new, and libraries try several kernels for one product. It
    happens once, but in the middle of what is measured or served.

Evidence
    Gaps of which loading calls of the launching thread, or a compiler for once, take more than
    half. Which compiler it is, and what avoids the wait, is in timeline/runtimes.tsv, with sources.
    Where no range names it, CPU samples do (more than half of those in the gap), or the first
    launch of a kernel that only such a compiler makes. The gain is a replay in which these take no
    time. Compilers that run again and again are left to recompilation.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    By compiler: warm up with every shape before measuring; keep its cache between runs, or compile
    ahead. For modules: launch each kernel once before what is measured; CUDA_MODULE_LOADING=EAGER
    for servers.

False positives
    A recording of start-up on purpose.

References
    CUDA C++ Programming Guide, "Lazy Loading"; JAX, "Persistent compilation cache"; PyTorch,
    "Compile Time Caching in torch.compile"; Julia manual, "Performance Tips".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import NO_RANGE, Claim, claim_gaps
from sightline.replay.host_changes import remove_compilation, shorten_first_launches
from sightline.timeline import causes
from sightline.timeline.api_calls import loads_code
from sightline.timeline.compiling import list_compiling_spans, name_gap_runtimes
from sightline.timeline.runtimes import Runtime, list_runtimes

RULE = Rule(
    "jit-or-module-load-in-window",
    "Module loading or JIT compilation in the window",
    causes=(causes.CODE_LOADING,),
    explains_lateness=True,
    over_time=True,
)
_MOST_NAMES = 3


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE)
    if mine is None:
        return
    spans = list_compiling_spans(run)
    # As idle lists them, by how much they take.
    found = mine.gaps.group_by("cause").agg(pl.col("duration_ns").sum())
    listed = found.sort("duration_ns", "cause", descending=[True, False])["cause"].to_list()
    deeds = _sum_runtimes(run, mine)
    main = deeds[0][0] if deeds and 2 * deeds[0][1] > mine.cost_ns else None
    yield make_finding(
        run,
        RULE,
        f"The GPU is idle for {format_pct(mine.pct)} of the window while the host "
        f"{_join([r.deed for r, _ in deeds[:_MOST_NAMES]]) or 'loads modules or compiles'}. It "
        "happens once, and not in each step.",
        Loss(
            cost_ns=mine.cost_ns,
            bound_ns=mine.worst_ns,
            change=lambda nodes: shorten_first_launches(
                remove_compilation(nodes, spans, mine.gaps, loads_code), mine.gaps
            ),
        ),
        Evidence(
            _describe_runtimes(mine, deeds),
            rows=mine.rows,
            where={
                **mine.where(listed[0]),
                "once": True,
                "runtimes": sorted({r.runtime for r, _ in deeds}),
            },
            calls=mine.calls,
        ),
        Advice(
            fix=main.avoid if main else _advise_loading(run),
            verify=f"sightline stats idle AFTER: total_ns of {' and '.join(listed)}",
            cause="new code is compiled, tuned or loaded at its first use",
            sources=(main.source if main else "CUDA C++ Programming Guide: Lazy Loading",),
        ),
        title=f"The host {main.deed}, once" if main else None,
    )


def _sum_runtimes(run: Run, mine: Claim) -> list[tuple[Runtime, int]]:
    """What the host did by the table's rows, and for how long (ns), the longest first."""
    each = (
        mine.gaps.select("duration_ns", row=name_gap_runtimes(run, mine.gaps))
        .drop_nulls("row")
        .group_by("row")
        .agg(pl.col("duration_ns").sum())
    )
    rows, whole = list_runtimes(), dict[tuple[str, str], tuple[Runtime, int]]()
    for row, ns in each.sort("row").rows():
        known, before = whole.get((rows[row].runtime, rows[row].kind), (rows[row], 0))
        whole[rows[row].runtime, rows[row].kind] = (known, before + ns)
    return sorted(whole.values(), key=lambda pair: -pair[1])


def _describe_runtimes(mine: Claim, deeds: list[tuple[Runtime, int]]) -> list[str]:
    """The gaps, and what of them each compiler took."""
    named = [f"{format_ns(ns)} of it: the host {r.deed}" for r, ns in deeds[:_MOST_NAMES]]
    return [*(line for line in mine.evidence if not named or line != NO_RANGE), *named]


def _join(deeds: list[str]) -> str:
    return ", ".join(deeds[:-1]) + " and " + deeds[-1] if len(deeds) > 1 else "".join(deeds)


def _advise_loading(run: Run) -> str:
    return choose_fix(
        run,
        "warm up before measuring: use every kernel once with every shape",
        pytorch="warm up with every shape before measuring; CUDA_MODULE_LOADING=EAGER for servers",
        serving="send warm-up requests of every shape before measuring; CUDA_MODULE_LOADING=EAGER",
        openacc="run each region once before the timed part; CUDA_MODULE_LOADING=EAGER",
        native="launch each kernel once before the timed part; CUDA_MODULE_LOADING=EAGER",
        openmp="run each target region once before the timed part; CUDA_MODULE_LOADING=EAGER",
    )
