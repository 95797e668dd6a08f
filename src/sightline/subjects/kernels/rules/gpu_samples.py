"""Where the samples of a GPU's instructions fall, and what the waves there wait for.

Symptom
    Samples of a program counter, as rocprofv3's PC sampling, a decoded thread trace, iaprof or
    unitrace's stall sampling take them, and nothing else.

Why it hurts
    A wave that waits issues nothing; where no other is ready, the unit idles.

Evidence
    The kernel with most samples, the kind of wait with most of these, and the line (or the
    instruction) at which most of them are.

Threshold
    50 samples (ours: fewer say little of shares); a kind of wait of 30 % of a kernel's samples
    (Nsight Compute's rule on warp stalls, 2024.1, speaks from 30 % on).

Fix
    What helps against that kind of wait, at that line.

False positives
    Many waves may wait while one works: only the kernel's time tells what that costs. Samples of a
    kernel that is limited by bandwidth wait for memory, however well it is written.

References
    AMD, rocprofiler-sdk, "PC sampling"; Intel, unitrace and iaprof, EU stall sampling; NVIDIA,
    Nsight Compute documentation, "Warp Stall Reasons".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.text import fit_text
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.stall_advice import advise_on_class
from sightline.timeline.gpu_stacks import read_gpu_samples

RULE = Rule("gpu-samples", "Where the GPU's samples fall")

LEAST_SAMPLES, LEAST_PCT = 50, 30.0
MOSTLY_PCT = 50.0  # else it is of all kernels together
ISSUING = "issuing"
_WIDTH, _MOST = 72, 2


def check(run: Run) -> Iterator[Finding]:
    """At most one finding: about the kernel with most samples, or about all of them."""
    if run.rows("device_ops") or run.rows("kernel_metrics"):
        return
    samples = read_gpu_samples(run)
    whole = sum_column(samples, "value")
    if whole < LEAST_SAMPLES:
        return
    kernels = _sum_by(samples, "kernel")
    kernel, size = kernels.row(0)
    if 100 * size < MOSTLY_PCT * whole:
        kernel, size = None, whole
    mine = samples if kernel is None else samples.filter(pl.col("kernel") == kernel)
    of = f"{format_pct(100 * size / whole)} of {format_several(whole, 'sample')}"
    text = (
        f"{format_several(whole, 'sample')} of a GPU's instructions are in "
        f"{format_several(kernels.height, 'kernel')}"
        if kernel is None
        else f"{of} of a GPU's instructions are in `{shorten_kernel_name(kernel)}`"
    )
    kinds = _sum_by(mine, "stall_class")
    lines = [f"{format_pct(100 * n / size)} {kind}" for kind, n in kinds.head(_MOST).rows()]
    waits = kinds.filter(pl.col("stall_class") != ISSUING)
    where = mine
    fix = "begin with the line that has most of them; counters say what it waits for"
    if waits.height and 100 * waits.item(0, "value") >= LEAST_PCT * size:
        what, number = waits.row(0)
        where = mine.filter(pl.col("stall_class") == what)
        waited_for, fix = advise_on_class(what)
        text += f"; in {format_pct(100 * number / size)} of them waves wait {waited_for}"
    place = "line" if where.get_column("line").null_count() < where.height else "instruction"
    lines += [
        f"{format_pct(100 * n / size)} at {fit_text(at, _WIDTH)}"
        for at, n in _sum_by(where, place).head(_MOST).rows()
    ]
    if kernel is not None and kernel != shorten_kernel_name(kernel):
        lines.append(fit_text(kernel, _WIDTH))
    yield build_finding(
        RULE,
        f"{text}.",
        Evidence(lines, where={} if kernel is None else {"kernel": kernel}),
        Advice(
            fix=fix,
            verify="sightline flame AFTER -o flame.html",
            sources=("AMD, rocprofiler-sdk: PC sampling", "NVIDIA: Warp Stall Reasons"),
        ),
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _sum_by(samples: pl.DataFrame, column: str) -> pl.DataFrame:
    """Samples by what stands in a column, the most first; without those that have nothing there."""
    return (
        samples.drop_nulls(column)
        .group_by(column)
        .agg(pl.col("value").sum())
        .sort("value", column, descending=[True, False])
    )
