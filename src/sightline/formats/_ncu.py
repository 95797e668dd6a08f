"""What the readers of Nsight Compute's two formats share: metric rows, and units by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline.core.model.source import Source, read_intact
from sightline.core.model.tables import load_table
from sightline.core.units import INT64_MAX

Value = int | float | str | None
# Deflate packs reports about 5 times; one that unpacks to more than this is a bomb.
_MOST_UNPACKED = 100
_CHUNK = 1 << 20

# What a name says of the unit: a report itself has none. From the metric naming rules of the
# Kernel Profiling Guide, "Metrics Structure"; the first word that is found counts.
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


def read_all(source: Source) -> tuple[bytes, str | None]:
    """The decompressed bytes, and the reason where they end early."""
    limit = max(_MOST_UNPACKED * source.size, _CHUNK)
    chunks: list[bytes] = []
    with source.open() as stream:
        while limit > 0:
            chunk, cut = read_intact(stream, min(_CHUNK, limit))
            chunks.append(chunk)
            limit -= len(chunk)
            if not chunk or cut:
                return b"".join(chunks), cut
    return b"".join(chunks), "it unpacks to more than a report can be"


def name_unit(name: str) -> str | None:
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

    def add_instances(
        self, kernel_id: int, metric: str, instances: list[tuple[Value, Value]]
    ) -> None:
        """The instances of a metric; those without a key are numbered."""
        keys = [number if key is None else key for number, (key, _) in enumerate(instances)]
        values = [value for _, value in instances]
        if not all(type(x) is int and -INT64_MAX <= x <= INT64_MAX for x in (*keys, *values)):
            for key, value in zip(keys, values, strict=True):
                self.add(kernel_id, metric, key, value)
            return
        # Most are addresses with counts: a large report has millions of them.
        nothing = [None] * len(keys)
        self.kernel_id += [kernel_id] * len(keys)
        self.metric += [metric] * len(keys)
        self.instance_id += keys  # type: ignore[arg-type]
        self.instance_name += nothing
        self.value += map(float, values)  # type: ignore[arg-type]
        self.value_int += values  # type: ignore[arg-type]
        self.text += nothing

    def frame(self) -> pl.DataFrame:
        """The rows as a table, with units."""
        units = {name: name_unit(name) for name in set(self.metric)}
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


def _fit_column(value: Any) -> Any:
    """A whole number that no column holds is damage, and missing."""
    too_large = isinstance(value, int) and not -INT64_MAX - 1 <= value <= INT64_MAX
    return None if too_large else value


def make_frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame with the declared columns; absent ones are null."""
    return pl.DataFrame(
        [
            pl.Series(c.name, [_fit_column(r.get(c.name)) for r in rows], dtype=c.dtype)
            for c in load_table(table).stored
        ]
    )


def make_devices(devices: dict[int, dict[str, Any]]) -> pl.DataFrame:
    """The `devices` table from device attributes, named without their device__attribute_."""
    rows = []
    for number, a in sorted(devices.items()):
        major, minor = a.get("compute_capability_major"), a.get("compute_capability_minor")
        clock, bus = a.get("max_mem_frequency_khz"), a.get("fb_bus_width")
        peak_khz = a.get("max_gpu_frequency_khz") or a.get("clock_rate")
        rows.append(
            {
                "device_id": number,
                "vendor": "nvidia",
                "name": a.get("display_name") or a.get("name"),
                "sm_count": a.get("multiprocessor_count"),
                "max_clock_hz": peak_khz * 1000 if isinstance(peak_khz, int) else None,
                "memory_bytes": a.get("total_memory"),
                # Both edges of the memory clock carry data.
                "memory_bandwidth_bytes_per_s": (
                    clock * 1000 * 2 * bus // 8
                    if isinstance(clock, int) and isinstance(bus, int)
                    else None
                ),
                "compute_capability": None
                if major is None or minor is None
                else f"{major}.{minor}",
                "warp_size": a.get("warp_size"),
                "max_threads_per_sm": a.get("max_threads_per_multiprocessor"),
                "registers_per_sm": a.get("max_registers_per_multiprocessor"),
                "shared_bytes_per_sm": a.get("max_shared_memory_per_multiprocessor"),
                "l2_bytes": a.get("l2_cache_size"),
                "copy_engines": a.get("async_engine_count"),
            }
        )
    texts = {"vendor", "name", "compute_capability"}
    for row in rows:
        for name, value in row.items():
            if name in texts:
                fits = isinstance(value, str)
            else:
                fits = isinstance(value, int) and abs(value) <= INT64_MAX
            row[name] = value if fits else None
    return make_frame("devices", [r for r in rows if r["device_id"] is not None])
