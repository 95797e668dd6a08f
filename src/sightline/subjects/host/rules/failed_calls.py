"""Calls of CUDA or HIP failed: the recording does not show the program as intended.

Symptom
    Kernels that take no time or are not there at all, results that are wrong, calls that take
    unusually long.

Why it hurts
    A call that fails says so in what it returns alone, and a launch that failed is heard of only by
    whoever asks. What follows is computed on data that is not there; after an illegal address every
    further call fails.

Evidence
    The number that each call returned, where the profiler keeps it (Nsight Systems).

Threshold
    One call that launches, allocates, copies, fills, prefetches, synchronizes or loads a module,
    and returns an error that no program expects (`sightline.core.cuda_errors`).

Fix
    Check what each call returns, and cudaGetLastError() after each launch; compute-sanitizer names
    the access.

False positives
    A program that tries a call to find out whether it is supported.

References
    CUDA C++ Programming Guide, "Error Checking"; CUDA Runtime API, cudaError.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.cuda_errors import HARMLESS, STICKY, name_error
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.timeline.host_ranges import IN_API

RULE = Rule("failed-calls", "Calls failed", over_time=True)
_MOST = 4
# What a program needs: what only asks (attributes, properties, addresses of functions) may fail.
_WORKS = (
    r"Launch|Malloc|MemAlloc|Memcpy|Memset|MemPrefetch|Synchronize|ModuleLoad|"
    r"LibraryLoad|(?:cuda|hip)Free|GraphInstantiate|HostRegister"
)
# A free that is refused: what ran does not depend on it (cudaErrorInvalidValue, 17:
# cudaErrorInvalidDevicePointer, 400: cudaErrorInvalidResourceHandle).
_IS_FREE = pl.col("name").str.contains(r"^(?:cuda|hip)Free") & pl.col("return_value").is_in(
    [1, 17, 400]
)
# cudaErrorLaunchOutOfResources: it leaves the context as it was. Of so many launches at most that
# a tuner tries, the others being the program's (ours).
_TOO_LARGE, _MOST_TRIED = 701, 0.25
_PRECISE = {
    222: "build for this GPU (nvcc -arch=native) or update the driver: it cannot compile this PTX",
    209: "build for this GPU (nvcc -arch=native): the binary has no code for it",
    98: "build for this GPU (nvcc -arch=native): the binary has no code for it",
    35: "update the driver, or build with an older toolkit",
    701: "launch blocks of fewer threads, or lower the registers of the kernel (__launch_bounds__, "
    "-maxrregcount)",
    9: "keep blocks within 1,024 threads, the shared memory that a block may have, and grids "
    "within their limits",
    2: "allocate less, or free what is not needed",
    720: "launch no more blocks than fit the GPU at once (cudaOccupancyMaxActiveBlocksPer"
    "Multiprocessor)",
}


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, which leads where a launch failed or the context was lost."""
    if not run.rows("host_ops"):
        return
    failed = (
        run.scan("host_ops")
        .filter(IN_API, pl.col("return_value").is_not_null())
        .filter(~pl.col("return_value").is_in(list(HARMLESS)))
        .filter(pl.col("name").cast(pl.String).str.contains(_WORKS))
        .group_by(pl.col("name").cast(pl.String), "return_value")
        .agg(calls=pl.len(), first_ns=pl.col("start_ns").min())
        .sort("first_ns", "name")
        .collect()
    )
    if failed.is_empty():
        return
    codes = set(failed.get_column("return_value"))
    no_launch = failed.filter(pl.col("name").str.contains("Launch")).height > 0
    count = int(failed.get_column("calls").sum())
    first = failed.row(0, named=True)
    precise = next((_PRECISE[c] for c in failed.get_column("return_value") if c in _PRECISE), None)
    if failed.filter(~_IS_FREE).is_empty():
        yield _remark_on_frees(failed, count)
        return
    launched, are_timed = _count_launches(run) if codes == {_TOO_LARGE} else (0, False)
    if are_timed and count <= _MOST_TRIED * launched:
        yield _remark_on_trials(failed, count, launched)
        return
    look = (
        "check what each call returns, and cudaGetLastError() after each launch; "
        "compute-sanitizer names the access that is not allowed"
    )
    yield build_finding(
        RULE,
        f"{format_several(count, 'call')} failed, the first of them {first['name']} with "
        f"{name_error(first['return_value'])}: the recording does not show the program as "
        "intended.",
        Evidence(_list_calls(failed)),
        Advice(
            fix=f"{precise}; {look}" if precise else look,
            verify="sightline findings AFTER: this finding is gone",
            sources=("CUDA Runtime API, cudaError",),
        ),
        severity="warning",
        confidence="high",
        states_limit=True,
        is_asked=no_launch or bool(codes & STICKY),
    )


def _list_calls(failed: pl.DataFrame) -> list[str]:
    """'3 × cudaLaunchKernel: 222 (…)', those that failed first."""
    return [
        f"{format_count(row['calls'])} × {row['name']}: {name_error(row['return_value'])}"
        for row in failed.head(_MOST).iter_rows(named=True)
    ]


def _count_launches(run: Run) -> tuple[int, bool]:
    """How many launches there are, and whether most that failed were timed by events.

    Then the next call that launches nothing records an event, as around each shape that is tried.
    """
    name = pl.col("name").cast(pl.String)
    calls = (
        run.scan("host_ops")
        .filter(IN_API, pl.col("return_value").is_not_null())
        .select("rank", "pid", "tid", "start_ns", "return_value", name=name)
        .with_columns(launches=name.str.contains("Launch.*Kernel"))
        .collect()
        .sort("rank", "pid", "tid", "start_ns")
    )
    records = pl.when(~pl.col("launches")).then(name.str.contains(r"EventRecord"))
    calls = calls.with_columns(timed=records.backward_fill().over("rank", "pid", "tid"))
    failed = calls.filter("launches", pl.col("return_value") == _TOO_LARGE)
    timed = int(failed.get_column("timed").fill_null(value=False).sum())
    return int(calls.get_column("launches").sum()), 2 * timed > failed.height


def _remark_on_trials(failed: pl.DataFrame, count: int, launched: int) -> Finding:
    """Launches that ask for more than fits, among many that do not: whoever tunes tries such."""
    return build_finding(
        RULE,
        f"{format_count(count)} of {format_several(launched, 'launch', 'launches')} asked for more "
        "registers or threads than fit, and did nothing; the program continued. A library that "
        "tunes itself tries such shapes.",
        Evidence(_list_calls(failed)),
        Advice(
            fix="where a library tunes itself, keep what it found between runs (QUDA: "
            f"QUDA_RESOURCE_PATH), and record with it there; else {_PRECISE[_TOO_LARGE]}",
            verify="sightline findings AFTER: this finding is gone",
            sources=("CUDA Runtime API, cudaErrorLaunchOutOfResources", "lattice/quda: tuning"),
        ),
        title="Launches that do not fit were tried",
        severity="info",
        confidence="medium",
    )


def _remark_on_frees(failed: pl.DataFrame, count: int) -> Finding:
    """Pointers that are none were freed: the work is what it is meant to be, the memory stays."""
    names = failed.get_column("name").unique(maintain_order=True).to_list()
    return build_finding(
        RULE,
        f"{format_several(count, 'call')} of {' and '.join(names)} failed: the freed pointer "
        "does not point to GPU memory. That memory stays allocated; the other results are not "
        "affected.",
        Evidence(_list_calls(failed)),
        Advice(
            fix="free each pointer once, with the counterpart of the call that allocated it "
            "(cudaFree for cudaMalloc, cudaFreeHost for pinned memory, free for malloc)",
            verify="sightline findings AFTER: this finding is gone",
            sources=("CUDA Runtime API, cudaFree",),
        ),
        title="Freed pointers that are not GPU memory",
        severity="info",
        confidence="high",
    )
