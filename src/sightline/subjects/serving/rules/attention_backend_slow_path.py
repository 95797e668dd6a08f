"""Attention of decode takes longer than reading its keys and values.

Symptom
    Tokens come more slowly the longer the contexts are, by more than the memory's bandwidth
    explains.

Why it hurts
    Each step of decode reads all keys and values of its requests once a layer. A kernel that does
    so with too few blocks, or copies and converts them first, is on the path of every token.

Evidence
    Attention kernels of steps that only decode, against what reading the keys and values of their
    context takes at the memory's bandwidth: the shapes of the attention operator and the context
    of each step (vLLM: detailed_trace_annotation). Where these lack, kernels of backends that
    others outrun by name (attention_backends.tsv): a remark without a gain.

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that a problem takes), and twice the
    reading's time (ours: FlashAttention-3 and FlashInfer report 70 to 90 % of the bandwidth in
    decode).

Fix
    The server's other attention backend.

False positives
    Keys and values in fp8 are read in half the time that their operator's shapes say: the loss is
    then larger, not smaller. Short contexts take a kernel's start, not its reading.

References
    Shah et al. 2024, FlashAttention-3. Ye et al. 2025, FlashInfer. vLLM, Attention Backends.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.subjects.serving.attention import list_attention, measure_reading_ns
from sightline.subjects.serving.findings import list_steps, measure_windows, report_loss
from sightline.subjects.serving.flags import name_flag
from sightline.timeline.engine_steps import DECODE

RULE = Rule("attention-backend-slow-path", "Attention is slower than reading its cache")

LEAST_TIMES = 2.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    steps = list_steps(run)
    if steps is None or not run.rows("device_ops"):
        return
    decodes = steps.filter(pl.col("phase") == DECODE)
    found = list_attention(run, decodes) if decodes.height else pl.DataFrame()
    if found.is_empty():
        return
    reading_ns = measure_reading_ns(run)
    known = found.join(
        decodes.select("rank", "step", "context_tokens"), on=["rank", "step"]
    ).filter(pl.col("context_tokens") > 0)
    if reading_ns is None or known.is_empty():
        yield from _name_backend(run, found)
        return
    # Each of a step's attention kernels reads the context of its layer once.
    best = (pl.col("kernels") * pl.col("context_tokens") * reading_ns).round().cast(pl.Int64)
    losses = known.with_columns(best=best).filter(pl.col("ns") >= LEAST_TIMES * pl.col("best"))
    lost = pl.col("ns") - pl.col("best")
    losses = losses.with_columns(cost_ns=lost, gain_ns=lost)
    if losses.is_empty():
        return
    took, least = int(losses["ns"].sum()), int(losses["best"].sum())
    lines = [
        f"{format_ns(took)} in attention of {format_several(losses.height, 'step')}; reading the "
        f"keys and values takes {format_ns(least)}",
        f"most is in {losses.sort('ns', descending=True).item(0, 'kernel')[:80]}",
    ]
    backend = losses["backend"].drop_nulls()
    if backend.len():
        lines.append(f"its backend: {backend[0]}")
    yield from report_loss(
        run,
        RULE,
        losses,
        f"Attention of decode takes {took / max(least, 1):.1f} times what reading its keys and "
        "values needs.",
        lines,
        verify="sightline stats model_layers AFTER: attention_ns",
        method="bound: each step's keys and values read once at the memory's bandwidth",
    )


def _name_backend(run: Run, found: pl.DataFrame) -> Iterator[Finding]:
    """A remark on a backend that others outrun, where what it reads is not known."""
    slow = found.drop_nulls("backend")
    if slow.is_empty():
        return
    share = 100 * int(slow["ns"].sum()) / measure_windows(run)[0]
    if share < NOTABLE_PCT:
        return
    flag = name_flag(run, RULE.name)
    yield build_finding(
        RULE,
        f"Attention of decode takes {format_pct(share)} of the window, in kernels that others "
        "outrun.",
        Evidence(
            [
                f"its backend: {slow.item(0, 'backend')}",
                "how much slower it is the recording cannot tell: record shapes and each step's "
                "context (vLLM: torch_profiler_record_shapes, detailed_trace_annotation)",
            ]
        ),
        Advice(
            fix=flag.fix,
            verify="sightline stats model_layers AFTER: attention_ns",
            sources=(flag.source,),
        ),
        severity="warning",
        confidence="low",
    )
