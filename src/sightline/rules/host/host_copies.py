"""The main thread copies tensors instead of computing with them.

Symptom
    cat, contiguous, clone, copy_ and to take much of each step.

Why it hurts
    A copy reads and writes all of a tensor and computes nothing. Growing a tensor by cat copies
    everything before it, each time: the whole is quadratic.

Evidence
    The main thread's own time in operators that copy or allocate, 10 µs and longer each, with those
    that take most. The gain is a bound: all of that time.

Threshold
    Over 10 % of the window (ours: as for loading).

Fix
    Allocate once at full size and write into slices (key-value caches); make tensors in the layout
    and type in which they are used; views instead of copies.

    Of a program that uses a GPU (NCCL, cuDNN, CUDA's calls) such operators wait for it: that is
    said, as a remark, and what to record.

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

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import Advice
from sightline.rules.host._shared import SHORT_NS, Share, list_names, report_share, take_share
from sightline.timeline.host_parts import COPY, has_only_host, list_segments, uses_device
from sightline.units import format_pct

RULE = Rule("host-copies", "Copies on the CPU")

COPIES_PCT = 10.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    whole = pl.col("own_ns").sum().over("host_op_id")
    copies = list_segments(run).filter(pl.col("part") == COPY)
    share = take_share(run, copies.filter(whole >= SHORT_NS))
    if share.pct < COPIES_PCT:
        return
    if uses_device(run):
        yield _report_waits(share)
        return
    yield report_share(
        RULE,
        share,
        f"For {format_pct(share.pct)} of its time the main thread copies or allocates tensors.",
        list_names(share.segments),
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
        f"For {format_pct(share.pct)} of its time the main thread copies to or from a GPU that was "
        "not recorded, or waits for it.",
        list_names(share.segments),
        Advice(
            fix="record the GPU, too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), "
            "before anything is changed; .item(), .cpu() and .to() of a GPU's tensors block until "
            "it is done",
            verify="sightline stats breakdown AFTER",
        ),
        confidence="low",
    )
    return replace(
        found,
        title="Copies and waits for a GPU that was not recorded",
        severity="info",
        gain_ns=None,
        method=None,
    )
