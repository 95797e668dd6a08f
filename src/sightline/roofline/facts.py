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


# All blocks of a grid and all threads of a block, as if they lay in a row.
_SIZES = {"grid": "launch__grid_size", "block": "launch__block_size"}


def load_facts(run: Run, names: Iterable[str], prefixes: Iterable[str] = ()) -> list[Facts]:
    """Facts of every profiled kernel, in order, with the totals of these metrics.

    `prefixes` asks for every metric that starts so. Opcode counts are always there if recorded.
    """
    by_name = pl.col("metric").is_in([*names, *_SIZES.values()])
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
    derived = derive_sm_counts(run)
    for row in run.table("profiled_kernels").sort("kernel_id").iter_rows(named=True):
        here = only.get(row["recording_id"], [])
        alone = here[0] if row["device_id"] is None and len(here) == 1 else {}
        device = devices.get((row["rank"], row["recording_id"], row["device_id"]), alone)
        device = complete_device(device)
        if device.get("sm_count") is None and row["recording_id"] in derived:
            device = {**device, "sm_count": derived[row["recording_id"]]}
        row = _complete_launch(row, totals.get(row["kernel_id"], {}))
        counted = opcodes.get(row["kernel_id"], {})
        named = next((counted[m] for m in OPCODES if m in counted), {})
        threads = counted.get(THREAD_OPCODES, {})
        found.append(Facts(row, totals.get(row["kernel_id"], {}), device, named, threads))
    return found


def _complete_launch(row: dict[str, Any], totals: dict[str, float]) -> dict[str, Any]:
    """The kernel's row, its launch shape from the metrics where a table has no such columns."""
    known = {
        what: int(totals[metric])
        for what, metric in _SIZES.items()
        if row.get(f"{what}_x") is None and totals.get(metric)
    }
    sizes = {
        f"{what}_{axis}": n if axis == "x" else 1 for what, n in known.items() for axis in "xyz"
    }
    return {**row, **sizes} if sizes else row


_WAVES, _GRID = "launch__waves_per_multiprocessor", "launch__grid_size"
_LIMITS = tuple(
    f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "shared_mem", "warps")
)
_PRINTED = 0.005  # a table's figures have two decimals


def derive_sm_counts(run: Run) -> dict[int, int]:
    """The SMs of the GPU by recording, by what its launches say of waves; where that is exact.

    A wave is as many blocks as all SMs hold (Nsight Compute, metrics reference, launch__waves_per_
    multiprocessor), and how many one holds is the least of the occupancy limits.
    """
    return run.once(_derive_sm_counts)


def _derive_sm_counts(run: Run) -> dict[int, int]:
    if not run.rows("kernel_metrics"):
        return {}
    wide = (
        run.scan("kernel_metrics")
        .filter(
            pl.col("metric").cast(pl.String).is_in([_WAVES, _GRID, *_LIMITS]),
            pl.col("instance_id").is_null() & pl.col("instance_name").is_null(),
            pl.col("value").is_not_null() & pl.col("value").is_not_nan(),
        )
        .select("recording_id", "kernel_id", pl.col("metric").cast(pl.String), "value")
        .collect()
        .pivot(
            "metric",
            index=["recording_id", "kernel_id"],
            values="value",
            aggregate_function="first",
        )
    )
    limits = [name for name in _LIMITS if name in wide.columns]
    if len(limits) < len(_LIMITS) or not {_WAVES, _GRID} <= set(wide.columns):
        return {}
    held = pl.min_horizontal(limits)
    most = (
        wide.drop_nulls()
        .filter(held > 0, pl.col(_WAVES) > 0)
        .with_columns(sms=pl.col(_GRID) / (pl.col(_WAVES) * held))
        .filter(pl.col("sms") * _PRINTED / pl.col(_WAVES) < 0.5)
        .sort(_WAVES, descending=True)
        .unique("recording_id", keep="first", maintain_order=True)
        .select("recording_id", pl.col("sms").round().cast(pl.Int64))
    )
    return dict(most.iter_rows())
