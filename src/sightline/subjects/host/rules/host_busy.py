"""The CPU computes nearly all the time: only its operators can make the program faster.

Symptom
    Operators with much to do fill the steps.

Why it hurts
    It does not: it says where to look next, which is not data, Python or other ranks.

Evidence
    The share of the main thread's time in operators that work, and their kinds.

Threshold
    Over 80 % of the window (ours: what else there is then gains at most a quarter of that).

Fix
    A GPU; bfloat16 on CPUs with AMX or AVX512_BF16; channels_last for convolutions; as many
    threads as there are cores (OMP_NUM_THREADS); a smaller model.

False positives
    Operators that wait for cores that others use are long, and look busy.

References
    PyTorch Performance Tuning Guide, "CPU specific optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.subjects.host.rules._asleep import measure_queued
from sightline.subjects.host.rules._shared import count_steps, list_names, take_share
from sightline.timeline.host_parts import (
    KINDS,
    OTHER,
    has_only_host,
    list_segments,
    sum_host_windows,
    uses_device,
)

RULE = Rule("host-busy", "The CPU computes nearly all the time")

BUSY_PCT = 80.0
# Shorter than this the first calls show, which make thread pools, buffers and oneDNN's kernels:
# milliseconds each (ours).
_SHORT_NS = 100_000_000
_WARM_UP = "record several passes after a warm-up, since these include first calls; then "
_FIX = (
    "a GPU; bfloat16 where the CPU has instructions for it; channels_last for convolutions; "
    "OMP_NUM_THREADS at the number of cores"
)
# PyTorch's convolutions where oneDNN takes none of them (aten/src/ATen/native/Convolution.cpp:
# select_conv_backend, use_mkldnn; the first has been called so since 1.8).
_SLOW_CONVOLUTION = r"^aten::(?:_?slow_conv|thnn_conv)"
_NO_ONEDNN = "find out why convolutions do not go through oneDNN, and get a build that has it"
_USE_ONEDNN = (
    "find out why convolutions do not go through oneDNN: torch.backends.mkldnn.is_available() and "
    ".enabled, a build that has it (python -c 'import torch; print(torch.__config__.show())'), "
    "inputs in float32 or bfloat16; on Apple's processors the device mps"
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    # What a program of a GPU does on the CPU is not what binds it, for all that is recorded.
    if not has_only_host(run) or uses_device(run):
        return
    kinds = [kind for kind, _ in KINDS] + [OTHER]
    segments = list_segments(run).filter(pl.col("part").is_in(kinds))
    share = take_share(run, segments)
    # An operator that waits for a CPU does not compute: host-preempted says what does.
    queued = measure_queued(run)
    if share.pct - (queued.pct if queued else 0) < BUSY_PCT:
        return
    each = segments.group_by("part").agg(pl.col("own_ns").sum())
    top = each.sort("own_ns", "part", descending=[True, False]).head(MAX_ROWS)
    lines = [f"{format_pct(100 * ns / share.cost_ns)} {kind}" for kind, ns in top.rows()]
    slow = segments.filter(pl.col("name").cast(pl.String).str.contains(_SLOW_CONVOLUTION))
    slow_ns = sum_column(slow, "own_ns")
    is_slow = 2 * slow_ns > share.cost_ns
    whole = sum_host_windows(run)
    is_short = whole < _SHORT_NS and not count_steps(run)
    if is_short:
        lines.append(f"{format_ns(whole)} in all: what the first calls do once is part of it")
    if is_slow:
        names = slow.group_by("name").agg(pl.col("own_ns").sum()).top_k(1, by="own_ns")
        pct = format_pct(100 * slow_ns / share.cost_ns)
        lines[0] = f"{pct} in {names.item(0, 'name')}, for which no faster path was taken"
    yield build_finding(
        RULE,
        f"Operators compute for {format_pct(share.pct)} of the main thread's time, so only faster "
        f"ones can shorten it. {top.item(0, 'part').capitalize()} takes "
        f"{format_pct(100 * top.item(0, 'own_ns') / share.cost_ns)} of that.",
        Evidence((*lines, *list_names(segments)), where={"busy_pct": share.pct}),
        Advice(
            fix=choose_fix(run, _NO_ONEDNN, pytorch=_USE_ONEDNN, training=_USE_ONEDNN)
            if is_slow
            else f"{_WARM_UP}{_FIX}"
            if is_short
            else _FIX,
            verify="sightline stats host_breakdown AFTER",
        ),
        severity="info",
        confidence="high",
        title="Convolutions take PyTorch's fallback on the CPU" if is_slow else None,
        states_limit=True,
    )
