"""What the readers of Nsight Compute's two formats share: metric rows, and units by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import polars as pl

from sightline.units import INT64_MAX

Value = int | float | str | None

# What a name's ending says of the unit (the report itself has no units). Longest match first;
# from the metric naming rules of the Kernel Profiling Guide, "Metrics Structure".
_UNIT_WORDS = (
    ("time_duration", "ns"),
    ("cycles", "cycles"),
    ("bytes", "bytes"),
    ("sectors", "sectors"),
    ("requests", "requests"),
    ("wavefronts", "wavefronts"),
    ("bank_conflicts", "conflicts"),
    ("thread_inst", "thread inst"),
    ("inst_", "inst"),
    ("warps", "warps"),
    ("samples", "samples"),
)
_EXACT_UNITS = {
    "launch__registers_per_thread": "registers/thread",
    "launch__block_size": "threads",
    "launch__thread_count": "threads",
    "launch__grid_size": "blocks",
    "launch__waves_per_multiprocessor": "waves",
    "device__attribute_total_memory": "bytes",
    "device__attribute_l2_cache_size": "bytes",
}


def unit_of(name: str) -> str | None:
    """The unit that a metric's name implies, or None where it says nothing."""
    exact = _EXACT_UNITS.get(name)
    if exact is not None:
        return exact
    if "pct_of_peak_sustained" in name or name.endswith(("_pct", ".pct")):
        return "%"
    base = None
    if name.startswith("launch__occupancy_limit"):
        return "blocks"
    if name.startswith("launch__shared_mem"):
        return "bytes"
    if name.endswith("_khz"):
        return "kHz"
    if name.startswith(("device__attribute_", "breakdown:", "group:", "regex:")):
        return None
    if name.endswith((".ratio", ".max_rate")):
        return "ratio"
    for word, unit in _UNIT_WORDS:
        if word in name:
            base = unit
            break
    for ending, per in (
        (".per_second", "s"),
        (".per_cycle_elapsed", "cycle"),
        (".per_cycle_active", "cycle"),
        (".peak_sustained", "cycle"),
    ):
        if name.endswith(ending):
            return f"{base or '1'}/{per}"
    return base


@dataclass
class MetricRows:
    """Rows of `kernel_metrics`, column by column."""

    kernel_id: list[int] = field(default_factory=list)
    metric: list[str] = field(default_factory=list)
    instance_id: list[int | None] = field(default_factory=list)
    instance_name: list[str | None] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)
    value_int: list[int | None] = field(default_factory=list)
    text: list[str | None] = field(default_factory=list)

    def add(self, kernel_id: int, metric: str, instance: Value, value: Value) -> None:
        """One value; the total has no instance."""
        self.kernel_id.append(kernel_id)
        self.metric.append(metric)
        self.instance_id.append(_int64(instance))
        odd = instance is not None and self.instance_id[-1] is None
        self.instance_name.append(str(instance) if odd else None)
        self.value.append(_float(value))
        self.value_int.append(_int64(value))
        self.text.append(value if isinstance(value, str) else None)

    def frame(self) -> pl.DataFrame:
        """The rows as a table, with units."""
        units = {name: unit_of(name) for name in set(self.metric)}
        return pl.DataFrame(
            {
                "kernel_id": pl.Series(self.kernel_id, dtype=pl.Int64),
                "metric": pl.Series(self.metric, dtype=pl.String),
                "unit": pl.Series([units[m] for m in self.metric], dtype=pl.String),
                "instance_id": pl.Series(self.instance_id, dtype=pl.Int64),
                "instance_name": pl.Series(self.instance_name, dtype=pl.String),
                "value": pl.Series(self.value, dtype=pl.Float64),
                "value_int": pl.Series(self.value_int, dtype=pl.Int64),
                "text": pl.Series(self.text, dtype=pl.String),
            }
        )


def _int64(value: Value) -> int | None:
    return value if isinstance(value, int) and abs(value) <= INT64_MAX else None


def _float(value: Value) -> float | None:
    """A finite float: NaN and infinities stand for 'not measured'."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    return None
