"""Metrics and events that nvprof counted, by kernel: rows of profiled_kernels and kernel_metrics.

A value is the mean over all launches of a kernel. The names are nvprof's own; where Nsight Compute
has the same figure under another name, it stands under that, too (Nsight Compute CLI, "nvprof
Metric Comparison").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from sightline.core.text import replace_surrogates
from sightline.formats._ncu import MetricRows, make_frame

KERNEL = re.compile(r"^\s*Kernel: (\S.*?)\s*$")
_VALUE = r"(?:[A-Z][a-z]+ \(\d{1,2}\)|[\d.]{1,30}(?:e[+-]?\d{1,3})?(?:%|[KMGT]?B(?:/s)?)?|<[A-Z]+>)"
ROW = re.compile(
    rf"^\s*(\d{{1,15}})\s+([a-z]\w{{1,60}})(?:\s.*?)?\s+({_VALUE})\s+({_VALUE})\s+({_VALUE})"
    rf"(?:\s+({_VALUE}))?\s*$"
)
# Of such a row, whatever is damaged behind its name.
COUNTED = re.compile(r"(?:^|\S\s)\s*\d{1,15}\s{3,}[a-z]+_\w{1,60}\s{2,}\S")
# The same where the number is damaged, or alone.
UNCOUNTED = re.compile(
    rf"^\s+[^\s\d]\d*\s{{3,}}[a-z]+_\w{{1,60}}\s{{2,}}\S.*{_VALUE}\s*$|^\s{{4,}}\d+\s*$"
)
_FIGURE = re.compile(r"^([\d.]+(?:e[+-]?\d+)?)(%|[KMGT]?B(?:/s)?)?$")
_LEVEL = re.compile(r"^[A-Z][a-z]+ \((\d{1,2})\)$")
# nvprof's name: Nsight Compute's, and what makes the one the other. Only what means the same on all
# GPUs that nvprof knows: efficiencies of memory accesses are counted otherwise before Volta.
_SAME = {
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active", 100.0),
    "inst_executed": ("smsp__inst_executed.sum", 1.0),
}
LAUNCHES = "nvprof__invocations"  # ours: how many launches a value is the mean of


def read_counter(
    kernel: str, device: int | None, metric: str, invocations: str, mean: str
) -> dict[str, Any] | None:
    """One counter of a kernel; None where its value is none."""
    level, figure = _LEVEL.match(mean), _FIGURE.match(mean)
    if level is None and figure is None:
        return None
    unit = "of 10" if figure is None else (figure[2] or None)
    try:
        value = float(level[1] if level is not None else figure[1] if figure else "")
    except ValueError:
        return None
    return {
        "kernel": replace_surrogates(kernel),
        "device_id": device,
        "metric": metric,
        "launches": int(invocations),
        "value": value,
        "unit": unit,
        "text": mean if level is not None else None,
    }


def make_tables(
    counters: Iterable[Mapping[str, Any]], means: Mapping[str, int]
) -> dict[str, pl.DataFrame]:
    """The tables of all counters; `means`: what a launch of a kernel takes, where that is known."""
    ids: dict[tuple[Any, ...], int] = {}
    kernels: list[dict[str, Any]] = []
    metrics = MetricRows()
    units: dict[str, str] = {}
    for row in counters:
        key = (row["device_id"], row["kernel"])
        if key not in ids:
            ids[key] = len(kernels)
            kernels.append(
                {
                    "kernel_id": ids[key],
                    "kind": "kernel",
                    "name": row["kernel"],
                    "device_id": row["device_id"],
                    "occurrence": 0,
                    "duration_ns": means.get(row["kernel"]),
                }
            )
            metrics.add(ids[key], LAUNCHES, None, row["launches"])
        name, value = row["metric"], row["value"]
        if row["unit"] is not None:
            units[name] = row["unit"]
        metrics.add(ids[key], name, None, value)
        if row["text"] is not None:
            metrics.text[-1] = row["text"]
        if name in _SAME:
            metrics.add(ids[key], _SAME[name][0], None, value * _SAME[name][1])
    unit = pl.col("metric").replace_strict(units, default=pl.col("unit"), return_dtype=pl.String)
    return {
        "profiled_kernels": make_frame("profiled_kernels", kernels),
        "kernel_metrics": metrics.frame().with_columns(unit=unit),
    }
