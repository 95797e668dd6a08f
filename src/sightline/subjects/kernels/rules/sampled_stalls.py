"""Where the warps of a kernel waited, by samples of its instructions taken while the program ran.

Symptom
    A kernel takes much of the window, and most of its samples fall on a few lines at which its
    warps wait for one thing.

Why it hurts
    A warp that waits issues nothing; where no other warp is ready, the multiprocessor idles.

Evidence
    The line (or instruction) with the most samples, what its warps waited for, and the share of the
    kernel's samples in which they did. The gain is a bound: the kernel without the samples that
    wait for this kind of reason at these lines, as if nothing else held the warps then.

Threshold
    Kernels of 5 % of the window or more, lines of 10 % of the samples, reasons of 30 % of a line's
    (Nsight Compute's rule on warp stalls, 2024.1, speaks from 30 % on).

Fix
    What helps against that reason, at that line; counters say more:
    ncu --set full -k regex:NAME -c 1.

False positives
    Many warps may wait while one works: only the kernel's time tells. Samples of a kernel that is
    limited by bandwidth wait for memory, however well it is written.

References
    NVIDIA, Nsight Compute documentation, Kernel Profiling Guide, "Warp Stall Reasons"; CUPTI, "PC
    Sampling API".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.diagnosis.stall_advice import advise_on_stall
from sightline.replay.gains import sum_windows

RULE = Rule("sampled-stalls", "Warps wait, by samples of the instructions")

_LINE_PCT, _REASON_PCT = 10.0, 30.0
# CUDA's headers whose inlined functions take the samples of the line that calls them: what the
# line does, and what helps more than the advice on the reason.
_INLINED = {
    "atomic_functions": (
        "an atomic operation",
        "let fewer threads update one address: add up in registers, a warp or shared memory first, "
        "and do one atomic addition a block",
    )
}


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name, of a timeline beside which instructions were sampled."""
    if not run.rows("pc_samples") or not run.rows("device_ops") or run.rows("kernel_metrics"):
        return
    kernels = run.ask("kernels")
    compute_ns = sum_column(kernels, "total_ns")
    hot = run.ask("hot_lines").join(_count_samples(run), on="name")
    windows = sum_windows(run)
    for (name,), lines in hot.partition_by("name", as_dict=True, maintain_order=True).items():
        of_kernel, of_all = lines.select("of_kernel", "of_all").row(0)
        cost_ns = round(compute_ns * of_kernel / max(of_all, 1))
        waiting = lines.filter(
            pl.col("share_pct") >= _LINE_PCT, pl.col("reason_pct") >= _REASON_PCT
        ).drop_nulls("reason")
        if 100 * cost_ns < NOTABLE_PCT * windows or waiting.is_empty():
            continue
        yield _make(str(name), waiting.to_dicts(), of_kernel, cost_ns, windows)


def _count_samples(run: Run) -> pl.DataFrame:
    """Per kernel name: of_kernel, its samples, and of_all, those of all kernels."""
    names = run.scan("profiled_kernels").select("kernel_id", "name")
    samples = run.scan("pc_samples").join(names, on="kernel_id").group_by("name")
    counted = samples.agg(of_kernel=pl.col("samples").sum())
    return counted.with_columns(of_all=pl.col("of_kernel").sum()).collect()


def _make(
    name: str, lines: list[dict[str, Any]], of_kernel: int, cost_ns: int, windows: int
) -> Finding:
    first = lines[0]
    waits = [row for row in lines if row["stall_class"] == first["stall_class"]]
    waiting = sum(row["samples"] * row["reason_pct"] / 100 for row in waits) / max(of_kernel, 1)
    gain_ns = round(cost_ns * min(waiting, 1.0))
    what, fix = advise_on_stall(first["reason"])
    for header, (does, better) in _INLINED.items():
        if any(header in (row["file"] or "") for row in lines):
            what, fix = f"{what}, in {does}", better
    return build_finding(
        RULE,
        f"{name}: its warps wait {what}, most of them at {_name_place(first)}, which has "
        f"{format_pct(first['share_pct'])} of {format_several(of_kernel, 'sample')}.",
        Evidence(
            [
                f"{_name_place(row)}: {format_pct(row['share_pct'])} of the samples, "
                f"{format_pct(row['reason_pct'])} of them {row['reason']} ({row['stall_class']})"
                for row in lines[:MAX_ROWS]
            ],
            where={"kernel": name, "source": _name_place(first)},
        ),
        Advice(
            fix=fix,
            verify="sightline stats hot_lines AFTER: fewer samples there",
            cause=f"{first['reason']}: warps wait {what}",
            sources=("Nsight Compute, Kernel Profiling Guide: Warp Stall Reasons",),
        ),
        price=(Price(cost_ns, "ns", 100 * cost_ns / windows), Price(gain_ns, "ns")),
        severity="warning",
        confidence="medium",
        method="bound: the kernel without the samples that wait there",
        is_asked=True,
    )


def _name_place(row: dict[str, Any]) -> str:
    """'kernels.cu:188', or the instruction where no lines are known."""
    if row["line"] is None:
        return f"{row['opcode'] or 'the instruction'} at byte {row['offset']}"
    return f"{row['file'].rsplit('/', 1)[-1]}:{row['line']}"
