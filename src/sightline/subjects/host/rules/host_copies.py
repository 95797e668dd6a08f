"""The main thread copies tensors instead of computing with them.

Symptom
    cat, contiguous, clone, copy_ and to take much of each step.

Why it hurts
    A copy reads and writes all of a tensor and computes nothing. Growing a tensor by cat copies
    everything before it, each time: the whole is quadratic.

Evidence
    The main thread's own time in operators that copy or allocate, 10 µs and longer each, with those
    that take most. A copy whose result replaces an older one also gives that one's memory back,
    in no operator: how much longer Python is behind such operators than elsewhere (the median), at
    most the time that the kernel took where steps were counted. The gain is a bound: all of that.

Threshold
    Over 10 % of the window (ours: as for loading).

Fix
    Allocate once at full size and write into slices (key-value caches); make tensors in the layout
    and type in which they are used; views instead of copies.

    Of a program that uses a GPU (NCCL, cuDNN, CUDA's calls, reads of one value that take a
    millisecond) such operators wait for it: that is said, as a remark, and what to record.

False positives
    A copy that is the program's purpose.

References
    PyTorch Performance Tuning Guide, "Avoid unnecessary data movement"; Hugging Face, "KV cache
    strategies", on static caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns
from sightline.diagnosis.build import Advice
from sightline.subjects.host.first_calls import list_first_calls
from sightline.subjects.host.rules._asleep import list_shares
from sightline.subjects.host.rules._shared import (
    SHORT_NS,
    Share,
    list_names,
    report_share,
    take_share,
)
from sightline.subjects.host.rules._there import find_there
from sightline.timeline.host_parts import (
    COPY,
    PYTHON,
    has_only_host,
    list_segments,
    sum_host_windows,
    uses_device,
)

RULE = Rule("host-copies", "Copies on the CPU", explains_lateness=True)

COPIES_PCT = 10.0
# A read of one value, by .item(): out of the host's memory it takes a microsecond. A millisecond is
# a wait for a device, of which Apple's is none that the profiler records.
_READ, _LONG_READ_NS = "aten::_local_scalar_dense", 1_000_000


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    whole = pl.col("own_ns").sum().over("host_op_id")
    copies = list_segments(run).filter(pl.col("part") == COPY).with_columns(whole_ns=whole)
    # A first allocation sets up a GPU's runtime: it copies nothing (host-first-run names it).
    once = list_first_calls(run).get_column("first_id")
    copies = copies.filter(~pl.col("host_op_id").is_in(once.implode()).fill_null(value=False))
    share = take_share(run, copies.filter(pl.col("whole_ns") >= SHORT_NS))
    if share.pct < COPIES_PCT:
        return
    reads = share.segments.filter(pl.col("name") == _READ, pl.col("whole_ns") >= _LONG_READ_NS)
    if uses_device(run) or 2 * sum_column(reads, "own_ns") > share.cost_ns:
        yield _report_waits(share)
        return
    freed, lines = _measure_freed(run), list_names(share.segments)
    if cost := sum_column(freed, "ns"):
        lines.append(f"{format_ns(cost)} after them, freeing the memory of older ones")
        copied = share.segments.select("rank", ns="own_ns")
        each = pl.concat([copied, freed.select("rank", "ns")]).group_by("rank").sum()
        share = replace(
            share,
            there=find_there(run, each),
            cost_ns=share.cost_ns + cost,
            worst_ns=share.worst_ns + find_largest(freed, "ns"),
            pct=share.pct + 100 * cost / sum_host_windows(run),
        )
    yield report_share(
        RULE,
        share,
        f"{share.there.thread} spends {share.there.share} of its time copying or allocating "
        "tensors.",
        lines,
        Advice(
            fix="allocate once and write into slices instead of cat; make tensors in the layout "
            "and type in which they are used; views instead of copies",
            verify="sightline stats host_breakdown AFTER: window_pct of copies and allocation",
        ),
        confidence="medium",
    )


def _report_waits(share: Share) -> Finding:
    """Of a program whose GPU was not recorded: its copies and reads of values wait for that GPU."""
    found = report_share(
        RULE,
        share,
        f"{share.there.thread} spends {share.there.share} of its time copying to or from a GPU "
        "that was not recorded, or waiting for it.",
        list_names(share.segments),
        Advice(
            fix="record the GPU, too (ProfilerActivity.CUDA or XPU; Apple's by torch.mps.profiler) "
            "before anything is changed; .item(), .cpu() and .to() of a GPU's tensors block until "
            "it is done: take them out of the step",
            verify="sightline stats breakdown AFTER",
        ),
        confidence="low",
    )
    return replace(
        found,
        title="Copies and waits for a GPU that was not recorded",
        severity="info",
        gain=None,
        method=None,
    )


def _measure_freed(run: Run) -> pl.DataFrame:
    """How long the main threads gave memory back behind copies: rank, ns."""
    segments = list_segments(run).with_columns(whole=pl.col("own_ns").sum().over("host_op_id"))
    is_python = pl.col("part") == PYTHON
    copies = (pl.col("part") == COPY) & (pl.col("whole") >= SHORT_NS)
    # What ended before a stretch of Python, calls of other operators around it left out.
    worked = pl.when(pl.col("works")).then(copies).forward_fill().over("rank")
    python = segments.with_columns(behind=worked.fill_null(value=False)).filter(is_python)
    usual = pl.col("own_ns").filter(~pl.col("behind")).median().over("rank")
    longer = (pl.col("own_ns") - pl.col("usual")).clip(0).filter("behind").sum()
    each = (
        python.with_columns(usual=usual)
        .group_by("rank", maintain_order=True)
        .agg(ns=longer.round().cast(pl.Int64))
    )
    kernel = list_shares(run, pl.col("kernel_pct").clip(0, 100))
    return each.join(kernel.rename({"ns": "most"}), on="rank").select(
        "rank", ns=pl.min_horizontal("ns", "most")
    )
