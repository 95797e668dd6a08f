"""Totals of a run's kernel metrics, kernel by kernel, and the device each kernel ran on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.roofline.hardware import find_gpu

TIME = "gpu__time_duration.sum"
CYCLES = "gpc__cycles_elapsed.max"
SM_CLOCK = "sm__cycles_elapsed.avg.per_second"


@dataclass(frozen=True)
class Facts:
    """One profiled kernel: its row, the asked totals, and its device's row."""

    row: dict[str, Any]
    metrics: dict[str, float]
    device: dict[str, Any]
    opcodes: dict[str, float] = field(default_factory=dict)  # warp instructions
    thread_opcodes: dict[str, float] = field(default_factory=dict)  # threads, predicate on

    def get(self, *names: str) -> float | None:
        """The first of these metrics that was measured."""
        for name in names:
            value = self.metrics.get(name)
            if value is not None:
                return value
        return None

    @property
    def is_amd(self) -> bool:
        """Whether it ran on AMD's GPU, whose counters are others."""
        return self.device.get("vendor") == "amd"

    @property
    def ns(self) -> float | None:
        """Duration of the kernel under the profiler; None where it is not known or zero."""
        ns: float | None = self.metrics.get(TIME)
        return (self.row.get("duration_ns") if ns is None else ns) or None

    @property
    def seconds(self) -> float | None:
        """The same in seconds."""
        return None if self.ns is None else self.ns / 1e9

    @property
    def sm_clock(self) -> float | None:
        """Measured SM clock in Hz: a rate, else the cycles of the kernel over its time."""
        rate = self.get(
            SM_CLOCK, "smsp__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second"
        )
        cycles, seconds = self.get(CYCLES), self.seconds
        return rate if rate is not None or cycles is None or not seconds else cycles / seconds


def complete_device(device: dict[str, Any]) -> dict[str, Any]:
    """The device's row, its number of SMs from the table of GPUs where the recording lacks it."""
    if not device or device.get("sm_count") is not None:
        return device
    gpu = find_gpu(device.get("name"), device.get("memory_bytes"))
    units = None if gpu is None else gpu.number("units")
    return device if units is None else device | {"sm_count": int(units)}


OPCODES = (
    "sass__inst_executed_per_opcode_with_modifier_all",
    "sass__inst_executed_per_opcode_with_modifier_selective",
)
THREAD_OPCODES = "sass__thread_inst_executed_true_per_opcode"


def load_facts(run: Run, names: Iterable[str], prefixes: Iterable[str] = ()) -> list[Facts]:
    """Facts of every profiled kernel, in order, with the totals of these metrics.

    `prefixes` asks for every metric that starts so. Opcode counts are always there if recorded.
    """
    by_name = pl.col("metric").is_in(list(names))
    for prefix in prefixes:
        by_name |= pl.col("metric").str.starts_with(prefix)
    wanted = (
        run.scan("kernel_metrics")
        # What the profiler could not compute is written as nan: it was not measured, it is not low.
        .filter(pl.col("value").is_not_null() & pl.col("value").is_not_nan())
        .filter(
            (by_name & pl.col("instance_id").is_null() & pl.col("instance_name").is_null())
            | (
                pl.col("metric").is_in([*OPCODES, THREAD_OPCODES])
                & pl.col("instance_name").is_not_null()
            )
        )
        .select("kernel_id", "metric", "instance_name", "value")
        .collect()
    )
    totals: dict[int, dict[str, float]] = {}
    opcodes: dict[int, dict[str, dict[str, float]]] = {}
    for kernel_id, metric, opcode, value in wanted.iter_rows():
        if opcode is None:
            totals.setdefault(kernel_id, {})[metric] = value
        else:
            opcodes.setdefault(kernel_id, {}).setdefault(metric, {})[opcode] = value
    devices = {
        (d["rank"], d["recording_id"], d["device_id"]): d
        for d in run.table("devices").iter_rows(named=True)
    }
    # A report of one device need not say which one a kernel ran on.
    only: dict[int, list[dict[str, Any]]] = {}
    for (_, recording, _), device in devices.items():
        only.setdefault(recording, []).append(device)
    found = []
    for row in run.table("profiled_kernels").sort("kernel_id").iter_rows(named=True):
        here = only.get(row["recording_id"], [])
        alone = here[0] if row["device_id"] is None and len(here) == 1 else {}
        device = devices.get((row["rank"], row["recording_id"], row["device_id"]), alone)
        device = complete_device(device)
        counted = opcodes.get(row["kernel_id"], {})
        named = next((counted[m] for m in OPCODES if m in counted), {})
        threads = counted.get(THREAD_OPCODES, {})
        found.append(Facts(row, totals.get(row["kernel_id"], {}), device, named, threads))
    return found
