"""Device or pinned host memory is allocated and freed inside the step.

Symptom
    cudaMalloc and cudaFree, or cudaHostAlloc and cudaFreeHost, between kernels, and the device idle
    meanwhile.

Why it hurts
    An allocation takes the driver's lock and often milliseconds; a free waits for the whole
    device first, so it also synchronizes (an implicit synchronization).

Evidence
    Gaps of which allocation calls of the launching thread take more than half. The gain is a
    replay in which these calls take no time and wait for nothing.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08). A few calls of over 80 ms that take 90 % of
    the time are not churn, but the set-up of the GPU and its libraries at first use, and are called
    that.

Fix
    Allocate before the step and reuse, pinned buffers too; keep shapes steady;
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, a memory limit that leaves the caching
    allocator room (its retries free everything), cudaMallocAsync or a pool in C++.

False positives
    Warm-up, in which the caching allocator grows: choose --window steady.

References
    CUDA C++ Programming Guide, "Implicit Synchronization"; PyTorch notes, "CUDA semantics:
    memory management".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import Texts
from sightline.core.algebra.scalars import sum_column
from sightline.core.algebra.window import host_in
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, keep_notable, make_finding
from sightline.diagnosis.gaps import LOOK_PCT, claim_gaps
from sightline.replay.replay import free_calls
from sightline.timeline import causes
from sightline.timeline.api_calls import allocates
from sightline.timeline.world import read_world

RULE = Rule(
    "allocator-churn",
    "Memory allocation inside the step",
    causes=(causes.ALLOCATION,),
    explains_lateness=True,
)

# PyTorch, "CUDA semantics", environment variables; the second is ROCm's name for the same.
_CACHE_AGAIN = (
    "let PyTorch cache memory again: unset PYTORCH_NO_CUDA_MEMORY_CACHING (and "
    "PYTORCH_NO_HIP_MEMORY_CACHING), which is for debugging"
)
# cudaHostAlloc, cudaMallocHost, cudaHostRegister, cuMemHostAlloc; HIP's names are alike.
_PINNED = r"Host"
_PIN_ONCE = "allocate pinned buffers once and reuse them"
_PIN_TENSORS = (
    "allocate pinned memory once and reuse it: pin_memory=True in the DataLoader, or tensors that "
    "are kept between steps"
)
# A cache asks the driver when it grows; one call for four kernels all through a window is none
# (ours: recordings with the cache have 0 to 0.02, one without it 0.6).
_UNCACHED = 0.25
# No allocation by itself takes so long (ours: of 2,821 in a public recording without the cache the
# longest takes 70 ms, of warm programs 0.8 ms): the context, cuBLAS or cuDNN are loaded in the
# first of them. A few such calls that take nearly all of the time are no churn.
_SET_UP_NS, _MOST_CALLS, _NEARLY_ALL = 80_000_000, 10, 0.9
_WARM_UP = (
    "run one pass before the measured or served part: this happens once; do not load libraries "
    "that are not used"
)


_USED = ("host_op_id", "rank", "pid", "tid", "layer", "name", "start_ns", "end_ns")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    mine = claim_gaps(run, RULE, least_pct=LOOK_PCT)
    if mine is None:
        return
    host = run.table("host_ops", _USED)
    host = host.filter(host_in(host, run.ask("windows"), whole_recording=False))
    every = host.filter(allocates(Texts(host.get_column("name")))).filter(
        pl.col("layer").is_in(["runtime", "driver"])
    )
    calls = (
        every.group_by("name")
        .agg(n=pl.len(), ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("ns", "name", descending=[True, False])
    )

    pinned = pl.col("name").str.contains(_PINNED)
    is_pinned = 2 * sum_column(calls.filter(pinned), "ns") > sum_column(calls, "ns")
    memory = "pinned host memory" if is_pinned else "GPU memory"
    fix, cause = _advise(run, calls.filter(~pinned), is_pinned=is_pinned)
    once = _count_set_up(every)
    if once:
        fix, cause = _WARM_UP, "the first use of the GPU and of its libraries sets them up"

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return free_calls(nodes, allocates(Texts(nodes.get_column("name"))))

    found = make_finding(
        run,
        RULE,
        f"The GPU is idle for {format_pct(mine.pct)} of the window while the host allocates or "
        f"frees {memory}.",
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns, change=without),
        Evidence(
            [
                *mine.evidence[:1],
                *([_describe_set_up(once)] if once else []),
                *(
                    f"{format_count(n)} × {name}, {format_ns(ns)}"
                    for name, n, ns in calls.head(3).rows()
                ),
            ],
            rows=mine.rows,
            where=mine.where("allocation"),
            calls=mine.calls,
        ),
        Advice(
            fix=fix,
            verify="sightline stats idle AFTER: total_ns of allocation",
            cause=cause,
            sources=("CUDA C++ Programming Guide: Implicit Synchronization",),
        ),
        title="Set-up in the first calls that allocate memory" if once else None,
    )
    yield from keep_notable(run, found)


def _count_set_up(calls: pl.DataFrame) -> int:
    """How many calls set something up, where a few of them take nearly all of the time; else 0."""
    length = calls.select(ns=pl.col("end_ns") - pl.col("start_ns"))
    long = length.filter(pl.col("ns") >= _SET_UP_NS)
    if not 0 < long.height <= _MOST_CALLS:
        return 0
    return long.height if sum_column(long, "ns") >= _NEARLY_ALL * sum_column(length, "ns") else 0


def _describe_set_up(once: int) -> str:
    calls = "one call of over 80 ms takes" if once == 1 else f"{once} calls of over 80 ms take"
    return f"{calls} nearly all of it, once: set-up at first use, not churn"


def _advise(run: Run, of_device: pl.DataFrame, *, is_pinned: bool) -> tuple[str, str]:
    """What to do, and why it costs time; `of_device` are the calls for memory of the device."""
    if is_pinned:
        fix = choose_fix(
            run,
            _PIN_ONCE,
            training=_PIN_TENSORS,
            pytorch="allocate pinned memory once and reuse it: tensors that are kept between steps",
            native=f"{_PIN_ONCE}: cudaHostAlloc before the loop",
            openmp=f"{_PIN_ONCE}: omp_alloc with the pinned trait before the loop",
            openacc=f"{_PIN_ONCE}, before the loop; where the runtime pins what it copies, keep "
            "arrays on the device around it (acc data)",
        )
        return fix, "the system locks every page, and CUDA synchronizes for it"
    if _is_uncached(run, of_device):
        return (
            _CACHE_AGAIN,
            "nearly every tensor is allocated by the driver: PyTorch's caching allocator is "
            "switched off",
        )
    fix = choose_fix(
        run,
        "allocate once before the loop, and reuse it",
        pytorch="allocate once before the step, warm up before measuring; "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True reduces churn",
        serving="warm up before measuring, and leave the server's memory limit as it is: a cache "
        "that is full is emptied and filled again",
        julia="allocate once before the loop and write in place (mul!, .=); CUDA.jl's pool keeps "
        "what it has: JULIA_CUDA_MEMORY_POOL",
        kokkos="allocate Views once before the loop, or without initialization",
        openacc="keep arrays on the device around the loop (acc data, acc enter data)",
        native="allocate once before the loop, or from a stream-ordered pool (cudaMallocAsync, "
        "cudaFreeAsync)",
        openmp="map arrays once around the loop (target enter data), not in each region",
        jax="let XLA keep its memory (XLA_PYTHON_CLIENT_PREALLOCATE=true, the default)",
    )
    return fix, "the step calls the driver's allocator, and cudaFree synchronizes with the GPU"


def _is_uncached(run: Run, calls: pl.DataFrame) -> bool:
    """Whether PyTorch asks the driver for memory at a rate that its cache never would."""
    if read_world(run).framework != "pytorch":
        return False
    asked = sum_column(calls.filter(pl.col("name").str.contains("Malloc|Alloc")), "n")
    freed = sum_column(calls.filter(pl.col("name").str.contains("Free")), "n")
    return min(asked, freed) >= _UNCACHED * sum_column(run.ask("kernels"), "instances")
