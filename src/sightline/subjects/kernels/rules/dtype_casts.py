"""Tensors are cast between types by separate kernels.

Symptom
    Pointwise copy kernels launched from aten::_to_copy.

Why it hurts
    A cast reads and writes the whole tensor and computes nothing. Weights that are cast in each
    step are cast repeatedly.

Evidence
    Kernels whose launch lies inside aten::_to_copy (`host_ops`), device copies not counted. The
    gain is a replay without them.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: its threshold for copies).

Fix
    Keep weights in the type that they are used in (model.to(torch.bfloat16)), let autocast keep
    its cache of cast weights, or torch.compile, which fuses casts into their neighbors.

False positives
    Mixed precision with fp32 master weights casts once per step on purpose; a change of device
    or layout by .to() is not a cast but a copy.

References
    PyTorch, Automatic Mixed Precision (cache_enabled).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels
from sightline.timeline.host_ranges import find_host_ancestor

RULE = Rule("dtype-casts", "Data type casts")
_CAST = "aten::_to_copy"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    host = run.table("host_ops", ["host_op_id", "name"])
    casts = host.filter(pl.col("name") == _CAST)
    if casts.is_empty():
        return
    kernels = list_kernels(run).drop_nulls("launch_id")
    inside = find_host_ancestor(
        run, kernels.get_column("launch_id"), casts.get_column("host_op_id")
    )
    found = find_shorter_kernels(
        run,
        RULE,
        kernels.filter(inside.is_not_null()).with_columns(factor=pl.lit(0.0)),
        "{share} of the window casts tensors from one type to another.",
        cause="tensors are stored in a type other than the one they are used in",
        fix="store weights in the type that they are used in (model.to(torch.bfloat16)), or "
        "torch.compile, which fuses casts into their neighbors",
        sources=("PyTorch: Automatic Mixed Precision",),
        host=_list_ranges(run, inside.drop_nulls()),
    )
    if found:
        yield found


def _list_ranges(run: Run, casts: pl.Series) -> pl.DataFrame:
    """The outermost operator of each of these casts: what the host does there goes with it."""
    columns = ["host_op_id", "name", "rank", "pid", "tid", "start_ns", "end_ns"]
    host = run.table("host_ops", columns)
    asked = host.filter(pl.col("name") == "aten::to").get_column("host_op_id")
    outer = casts if asked.is_empty() else find_host_ancestor(run, casts, asked).fill_null(casts)
    return host.filter(pl.col("host_op_id").is_in(outer.unique().implode()))
