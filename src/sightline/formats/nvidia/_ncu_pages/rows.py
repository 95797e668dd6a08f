"""Records of the table into rows of the tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import polars as pl

from sightline.core.model.declare import Quality
from sightline.formats._ncu import MetricRows, make_devices, make_frame
from sightline.formats.nvidia._ncu_old_names import rename_metric
from sightline.formats.nvidia._ncu_pages.labels import metric_name
from sightline.formats.nvidia._ncu_pages.units import parse_number, parse_unit, parse_value

_OWN = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
    "Stream", "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name",
    "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description",
    "Estimated Speedup Type", "Estimated Speedup",
}  # fmt: skip
_SEVERITY = {"OPT": "optimization", "WRN": "warning", "INF": "ok", "ERR": "error"}
_ATTRIBUTE = "device__attribute_"
# Facts of a kernel that its metrics also tell.
_FACTS = {
    "gpu__time_duration.sum": "duration_ns",
    "launch__registers_per_thread": "registers_per_thread",
    "launch__shared_mem_per_block_static": "static_shared_bytes",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared_bytes",
    "launch__shared_mem_per_block_driver": "driver_shared_bytes",
    "launch__cluster_dim_x": "cluster_x",
    "launch__cluster_dim_y": "cluster_y",
    "launch__cluster_dim_z": "cluster_z",
    "profiler__replayer_passes": "passes",
}


class KernelRows:
    """Everything that was read so far."""

    def __init__(self) -> None:
        self.kernels: list[dict[str, Any]] = []
        self.metrics = MetricRows()
        self.units: dict[str, str | None] = {}
        self.rules: list[dict[str, Any]] = []
        self.devices: dict[int, dict[str, Any]] = {}
        self.host: str | None = None
        self._at: dict[str, int] = {}
        self._long = False
        self._wide: list[tuple[int, str]] = []
        self._unit_row: list[str] | None = None
        self._ids: dict[tuple[str, str, str], int] = {}
        self._seen: Counter[tuple[Any, ...]] = Counter()
        self._had: set[tuple[int, str]] = set()

    def start(self, header: list[str]) -> None:
        """Take the table's header."""
        self._at = {name: at for at, name in enumerate(header)}
        self._long = "Metric Name" in self._at and "Metric Value" in self._at
        self._wide = (
            []
            if self._long
            else [(i, n) for i, n in enumerate(header) if n not in _OWN and "_Range:" not in n]
        )

    def fill(self, record: list[str]) -> list[str]:
        """The record with the empty cells that the tool leaves out after a metric's value.

        Versions that print rules beside metrics end a metric's row behind its value.
        """
        least = self._at.get("Metric Value", len(self._at))
        # Version 2022.4 ends it with one more comma.
        is_short = least < len(record) <= least + 2 and bool(record[least].strip())
        return record + [""] * (len(self._at) - len(record)) if is_short else record

    def add(self, record: list[str]) -> None:
        """Take a record: units, a kernel, or a metric of one."""
        if not record[self._at["ID"]].strip():
            if self._unit_row is None and not self._long:
                self._unit_row = record
            return
        kernel = self._kernel(record)
        if self._long:
            name, unit = self._cell(record, "Metric Name"), self._cell(record, "Metric Unit")
            if name:
                self._metric(kernel, name, unit, self._cell(record, "Metric Value"))
            if self._cell(record, "Rule Name"):
                self._rule(kernel, record)
            return
        units = self._unit_row or [""] * len(record)
        for at, name in self._wide:
            self._metric(kernel, name, units[at], record[at])

    def _cell(self, record: list[str], name: str) -> str:
        at = self._at.get(name)
        return "" if at is None else record[at].strip()

    def _kernel(self, record: list[str]) -> dict[str, Any]:
        """The kernel of a record; in a long table all records of one have the same ID."""
        name = self._cell(record, "Kernel Name")
        key = (self._cell(record, "ID"), self._cell(record, "Process ID"), name)
        if key in self._ids:
            return self.kernels[self._ids[key]]
        self.host = self.host or self._cell(record, "Host Name") or None
        sizes = {
            f"{what}_{axis}": value
            for what, column in (("grid", "Grid Size"), ("block", "Block Size"))
            for axis, value in zip("xyz", _triple(self._cell(record, column)), strict=True)
        }
        where = (name, *sizes.values())
        self._seen[where] += 1
        device = _int(self._cell(record, "Device"))
        capability = self._cell(record, "CC")
        if device is not None:
            known = self.devices.setdefault(device, {})
            major, _, minor = capability.partition(".")
            if major.isdecimal() and minor.isdecimal():
                known["compute_capability_major"], known["compute_capability_minor"] = major, minor
        kernel = {
            "kernel_id": len(self.kernels),
            "kind": "kernel",
            "name": name or None,
            "occurrence": self._seen[where] - 1,
            "device_id": device,
            "context_id": _int(self._cell(record, "Context")),
            "stream_id": _int(self._cell(record, "Stream")),
            **sizes,
        }
        self._ids[key] = len(self.kernels)
        self.kernels.append(kernel)
        return kernel

    def _metric(self, kernel: dict[str, Any], label: str, unit: str, text: str) -> None:
        base, factor = parse_unit(unit)
        name = metric_name(label, base)
        value, instances = parse_value(text, factor)
        key = (kernel["kernel_id"], name)
        if value is None or key in self._had:  # the details page repeats some in several sections
            return
        self._had.add(key)
        self.units[name] = base
        self.metrics.add(kernel["kernel_id"], name, None, value)
        for instance, item in instances:
            self.metrics.add(kernel["kernel_id"], name, instance, item)
        fact = _FACTS.get(name)
        if fact is not None and isinstance(value, (int, float)):
            kernel[fact] = round(value)
        if name.startswith(_ATTRIBUTE) and kernel["device_id"] is not None:
            known = self.devices.setdefault(kernel["device_id"], {})
            known.setdefault(name.removeprefix(_ATTRIBUTE), value)
        newer = rename_metric(name)
        if newer is not None and isinstance(value, (int, float)) and math.isfinite(value):
            self._metric(kernel, newer, unit, text)

    def _rule(self, kernel: dict[str, Any], record: list[str]) -> None:
        severity = self._cell(record, "Rule Type")
        kind = self._cell(record, "Estimated Speedup Type").lower()
        self.rules.append(
            {
                "kernel_id": kernel["kernel_id"],
                "source": "NVIDIA Nsight Compute",
                "rule": self._cell(record, "Rule Name"),
                "section": self._cell(record, "Section Name") or None,
                "severity": _SEVERITY.get(severity, severity.lower() or None),
                "text": self._cell(record, "Rule Description") or None,
                "speedup_type": kind or None,
                "speedup_pct": parse_number(self._cell(record, "Estimated Speedup")),
            }
        )

    def tables(self) -> dict[str, pl.DataFrame]:
        """All tables."""
        units = {n: u for n, u in self.units.items() if u is not None}
        metrics = self.metrics.frame().with_columns(
            unit=pl.coalesce(
                pl.col("metric").replace_strict(units, default=None, return_dtype=pl.String), "unit"
            )
        )
        for kernel in self.kernels:
            kernel.setdefault("duration_ns", None)
        return {
            "profiled_kernels": make_frame("profiled_kernels", self.kernels),
            "kernel_metrics": metrics,
            "vendor_rules": make_frame("vendor_rules", self.rules),
            "devices": make_devices(self.devices),
        }

    def quality(self) -> list[Quality]:
        """What limits the conclusions that a table allows."""
        return [
            Quality(
                "printed_values",
                "info",
                "values are as printed, rounded to two or three decimals; per-instruction values, "
                "samples and source lines are not in a CSV",
                None,
                "Give the .ncu-rep report itself:  ncu -o NAME ...",
            )
        ]


def _int(text: str) -> int | None:
    value = parse_number(text)
    return value if isinstance(value, int) else None


def _triple(text: str) -> tuple[int | None, int | None, int | None]:
    """'(256, 1, 1)' as three numbers."""
    match = re.fullmatch(r"\(?\s*(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\)?", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (None, None, None)
