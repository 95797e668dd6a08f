"""A kernel whose name says one pass over the data takes several times what that needs.

Symptom
    A reduction, a transpose or a stencil of the program's own that keeps the GPU busy for several
    times as long as the memory needs to read (and write) the array that the program copies.

Why it hurts
    Such an algorithm computes next to nothing for each byte: at best it runs at the memory's rate.
    What takes longer waits for something else: barriers and divergent branches of a tree in shared
    memory, accesses that are not coalesced, atomics on one address, bank conflicts.

Evidence
    The algorithm by the kernel's name (own_kernels.tsv), the largest array that was copied, the
    threads of the launch, and the memory's rate by the GPU's name. How much a kernel moves is not
    in a timeline: it is taken to pass over that array once, where each of its threads has between
    one and 64 bytes of it. The gain is a replay in which it takes that time, at 80 % of the
    datasheet's rate.

Threshold
    Twice that time (ours: simple passes reach 80 to 95 % of the rate). Arrays of 16 MiB and more:
    smaller ones may stay in a cache, and a launch takes as long.

Fix
    What the field does in place of a first version of that algorithm; Nsight Compute says what
    holds this one back.

False positives
    A kernel that passes over larger arrays than any that was copied, or several times.

References
    Harris, "Optimizing Parallel Reduction in CUDA" (2007); Williams, Waterman and Patterson,
    "Roofline" (2009).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_ns
from sightline.diagnosis.algorithms import advise_kernel
from sightline.roofline.rates import find_bandwidth
from sightline.subjects.kernels.rules._launches import keep_factor, list_filled, pick_longest
from sightline.subjects.kernels.rules._passes import find_largest_copy
from sightline.subjects.kernels.rules._shared import escape_braces, find_shorter_kernels
from sightline.timeline.own_kernels import find_algorithm

RULE = Rule(
    "slow-pass",
    "Passes over data far below the memory's rate",
    explains=("dominating-kernel",),
)

# How often each moves the array at least: read it, write it, read another one.
_TIMES = {
    "reduction": 1,
    "histogram": 1,
    "scan": 2,
    "transpose": 2,
    "stencil": 2,
    "pixels": 2,
    "elements": 3,
}
_OFTEN = {1: "once", 2: "twice", 3: "three times"}
_SLOW = 2.0
_EFFICIENCY = 0.8
_LEAST_BYTES = 16 << 20
_MOST_BYTES_A_THREAD = 64
_PLACE = ["rank", "device_id"]
_COPIES = ("HtoD", "DtoH", "DtoD")
_NOT_MEMORY = (
    "memory is not what it waits for: sum by warp shuffles in place of a tree with barriers in "
    "shared memory, add once a block and not once a thread, let neighboring threads take "
    "neighboring elements; "
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    slow = _list_slow(run)
    if slow.is_empty():
        return
    longest = pick_longest(slow)
    name, times = longest["name"], longest["length"] / longest["needs"]
    short = escape_braces(shorten_kernel_name(name))
    launches = slow.filter(pl.col("name") == name)
    found = find_shorter_kernels(
        run,
        RULE,
        slow,
        f"`{short}` takes {times:.1f} times what its data need at the memory's rate: "
        "{share} of the window is beyond that.",
        cause="a pass over memory that waits for something else",
        fix=_NOT_MEMORY + advise_kernel(run, name),
        sources=("Harris, Optimizing Parallel Reduction in CUDA",),
        extra=(
            f"{_say_launches(launches.height)} {format_ns(longest['length'])}; to pass "
            f"{_OFTEN[longest['times']]} over the {format_bytes(longest['data'])} that were copied "
            f"takes {format_ns(longest['needs'])} at {100 * _EFFICIENCY:.0f} % of the memory's "
            f"{longest['rate'] / 1e9:,.0f} GB/s",
        ),
        is_bound=True,
    )
    if found is not None:
        yield found


def _say_launches(count: int) -> str:
    """'it takes', 'each of 1,000 × takes about'."""
    return "it takes" if count == 1 else f"each of {format_count(count)} × takes about"


def _list_slow(run: Run) -> pl.DataFrame:
    """The kernels that are meant, with `factor`, and `needs` (ns) of `data` (bytes) at `rate`."""
    kernels = list_filled(run).filter("own", "alone")
    times = {
        name: _TIMES[found.algorithm]
        for name in kernels.get_column("name").unique()
        if (found := find_algorithm(name)) is not None and found.algorithm in _TIMES
    }
    mine = kernels.filter(pl.col("name").is_in(list(times)))
    if mine.is_empty():
        return mine
    rates = [
        (
            d["rank"],
            d["device_id"],
            rate,
            find_largest_copy(run, d["rank"], d["device_id"], _COPIES),
        )
        for d in run.table("devices").iter_rows(named=True)
        if (rate := find_bandwidth(d)) is not None
    ]
    known = pl.DataFrame(
        rates,
        schema={"rank": pl.Int64, "device_id": pl.Int64, "rate": pl.Float64, "data": pl.Int64},
        orient="row",
    )
    threads = pl.col("blocks") * pl.col("threads")
    placed = mine.join(known, on=_PLACE, maintain_order="left").filter(
        pl.col("data") >= _LEAST_BYTES,
        pl.col("data").is_between(threads, threads * _MOST_BYTES_A_THREAD),
    )
    placed = placed.with_columns(
        times=pl.col("name").replace_strict(times, return_dtype=pl.Int64),
    ).with_columns(
        needs=1e9 * pl.col("data") * pl.col("times") / (_EFFICIENCY * pl.col("rate")),
    )
    slow = placed.filter(pl.col("length") >= _SLOW * pl.col("needs"))
    return slow.with_columns(factor=keep_factor(pl.col("needs") / pl.col("length")))
