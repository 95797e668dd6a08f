"""What each pipe of a GPU computed, from its activity and its peak at the clock that was measured.

An activity of DCGM's profiling fields (1004, 1006 to 1008, 1013 to 1016) or of NVML's GPM is the
part of the pipe's peak rate over all SMs of the device: 20 % may be a fifth of the SMs at full rate
or all of them at a fifth (dcgm_fields.h). So it is multiplied by the peak, once: SMs x operations a
cycle x SM clock, with the clock that was sampled at the same time. SM activity and occupancy say
why a pipe is not busy; they are not factors. The estimate that multiplies by them, too (peak x SM
active x SM occupancy x tensor active), stands beside it as `product_tflops`.

What a pipe was busy with is not recorded: an active cycle counts as full multiply-adds (an upper
bound), and a tensor pipe runs at twice the rate with FP8 as with BF16 and half with TF32, which is
what `low_tflops` and `high_tflops` span.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.model.columns import RANK, number, real, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.roofline.hardware import FLOP_PER_CLOCK, INT32_PER_CLOCK, Gpu, find_gpu

_CLOCK, _SM_ACTIVE, _OCCUPANCY = "SM clock", "SM active", "SM occupancy"
ANY_TENSOR = "tensor active"
ALL = "all floating point"


@dataclass(frozen=True)
class Pipe:
    """A pipe: the precisions that it may run, the usual one first."""

    name: str
    precisions: tuple[str, ...]
    is_float: bool = True


_HALF = ("bf16_tensor", "fp16_tensor")
# What monitors call a pipe's activity here (core/metric_names.py), and what it computes. HMMA is
# every floating-point tensor instruction but FP64, IMMA integers (NVIDIA DCGM user guide,
# "Profiling Metrics"). TF32 runs at half the rate of BF16, FP8 at twice, FP4 at four times it.
PIPES = {
    "FP64 active": Pipe("FP64", ("fp64",)),
    "FP32 active": Pipe("FP32", ("fp32",)),
    "FP16 active": Pipe("FP16", ("fp16",)),
    ANY_TENSOR: Pipe("tensor", (*_HALF, "tf32_tensor", "fp8_tensor", "fp4_tensor", "fp64_tensor")),
    "tensor HMMA active": Pipe("tensor HMMA", (*_HALF, "tf32_tensor", "fp8_tensor", "fp4_tensor")),
    "tensor IMMA active": Pipe("tensor IMMA", ("int8_tensor",), is_float=False),
    "tensor DFMA active": Pipe("tensor DFMA", ("fp64_tensor",)),
    # GPM's own name for the same instructions, of which DCGM has one field.
    "tensor DMMA active": Pipe("tensor DMMA", ("fp64_tensor",)),
    "integer active": Pipe("INT", ("int32",), is_float=False),
}
_DFMA, _DMMA = "tensor DFMA active", "tensor DMMA active"
_PARTS_OF_TENSOR = {"tensor HMMA active", "tensor IMMA active", _DFMA, _DMMA}
# Metrics of one reading may be sampled a moment apart, and those of a clock less often: a clock of
# up to two usual intervals away is the pipe's, and of at least a second (dcgmi dmon's own).
_LEAST_TOLERANCE_NS = 1_000_000_000

ANALYSIS = Analysis(
    "achieved_tflops",
    "How many FLOP/s did each pipe of each device reach?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("pipe", f"the pipe; '{ALL}': the sum of those that compute floating point"),
        text("precision", "whose peak it is multiplied by"),
        real("activity_pct", "mean activity of the pipe: part of its peak", "%"),
        real("clock_mhz", "mean SM clock at the same times", "MHz"),
        real("tflops", "mean of activity x peak at the measured clock", "TFLOP/s"),
        real("low_tflops", "with the slowest precision that the pipe has", "TFLOP/s"),
        real("high_tflops", "with the fastest precision that the pipe has", "TFLOP/s"),
        real("peak_tflops", "peak at the mean measured clock", "TFLOP/s"),
        real("datasheet_tflops", "peak as the vendor prints it", "TFLOP/s"),
        real("product_tflops", "datasheet x SM active x SM occupancy x tensor active", "TFLOP/s"),
        number("samples", "samples of the activity that have a clock"),
        text("basis", "what the peak is made of, or why there is none"),
    ),
    needs=("counters",),
    params=(Param("gpu", "", "the device's name, where the recording has none"),),
    notes=(
        "Each active cycle counts as full multiply-adds: an upper bound of what was computed.",
        "FP32's pipe multiplies and adds integers, too (DCGM's FP32 Engine Activity).",
        "INT and tensor IMMA are TOP/s of integers, and no part of the sum.",
        "product_tflops discounts idle SMs twice; docs/accuracy.md has the difference.",
        "MIG instances are left out: their share of the device's peak is not in the recording.",
    ),
)

_BY = ["rank", "device_id"]


def run(run: Run, *, gpu: str) -> pl.DataFrame:
    """A row for each pipe that was sampled, in order of device, and one for their sum."""
    counters = run.table("counters").filter(
        pl.col("source").is_null(),
        pl.col("device_id").is_not_null(),
        pl.col("value").is_finite(),
        pl.col("metric").is_in([*PIPES, _CLOCK, _SM_ACTIVE, _OCCUPANCY]),
    )
    sampled = counters.filter(pl.col("metric").is_in(list(PIPES)))
    if sampled.is_empty():
        raise MissingDataError(
            "'achieved_tflops' cannot be answered",
            why="the recording has no activity of a pipe (DCGM's profiling fields, or GPM)",
            hint="dcgmi dmon -e 100,1002,1003,1004,1006,1007,1008 > dmon.txt",
        )
    devices = _read_devices(run)
    rows: list[dict[str, object]] = []
    for (rank, device), mine in counters.group_by(_BY, maintain_order=True):
        place = int(str(rank)), int(str(device))
        name, memory = devices.get(place, (None, None))
        own = [
            _measure_pipe(mine, metric, find_gpu(gpu or name, memory), gpu or name)
            for metric in PIPES
            if mine.filter(pl.col("metric") == metric).height
        ]
        own += _add_up(own)
        rows += [{"rank": place[0], "device_id": place[1], **row} for row in own]
    schema = {c.name: c.dtype for c in ANALYSIS.columns}
    return pl.DataFrame(
        [{name: row.get(name) for name in schema} for row in rows], schema=schema
    ).sort(_BY, maintain_order=True)


def _read_devices(run: Run) -> dict[tuple[int, int], tuple[str | None, int | None]]:
    table = run.table("devices").select("rank", "device_id", "name", "memory_bytes")
    return {(rank, device): (name, memory) for rank, device, name, memory in table.iter_rows()}


def _measure_pipe(
    mine: pl.DataFrame, metric: str, gpu: Gpu | None, name: str | None
) -> dict[str, object]:
    """A row without rank and device."""
    pipe = PIPES[metric]
    joined = _join_nearest(mine, metric, (_CLOCK, _SM_ACTIVE, _OCCUPANCY))
    with_clock = joined.drop_nulls(_CLOCK)
    rates = _list_rates(pipe, gpu)
    usual = next(iter(rates), None)
    clock = _mean(with_clock, pl.col(_CLOCK))
    # MHz x operations a cycle are millions of operations a second.
    active = _mean(with_clock, pl.col("value") / 100 * pl.col(_CLOCK) / 1e6)
    row: dict[str, object] = {
        "metric": metric,
        "pipe": pipe.name,
        "precision": usual,
        "activity_pct": _mean(joined, pl.col("value")),
        "clock_mhz": clock,
        "samples": with_clock.height,
        "basis": _explain(pipe, gpu, name, rates, has_clock=with_clock.height > 0),
    }
    if gpu is None or usual is None:
        return row
    printed = gpu.number(f"peak.{usual}")
    if printed is not None:
        printed /= 1e12
    row["datasheet_tflops"] = printed
    if metric == ANY_TENSOR and printed is not None:
        factors = pl.col("value") * pl.col(_SM_ACTIVE) * pl.col(_OCCUPANCY) / 1e6
        row["product_tflops"] = _mean(joined, printed * factors)
    if clock is not None and active is not None:
        row["tflops"] = rates[usual] * active
        row["low_tflops"] = min(rates.values()) * active
        row["high_tflops"] = max(rates.values()) * active
        row["peak_tflops"] = rates[usual] * clock / 1e6
    return row


def _mean(values: pl.DataFrame, expression: pl.Expr) -> float | None:
    value = values.select(expression.drop_nulls().mean()).item()
    return None if value is None else float(value)


def _join_nearest(mine: pl.DataFrame, metric: str, others: tuple[str, ...]) -> pl.DataFrame:
    """Samples of a metric beside those of others nearest in time; null where none is near."""
    found = mine.filter(pl.col("metric") == metric).select("time_ns", "value").sort("time_ns")
    usual = found.get_column("time_ns").diff().drop_nulls().median()
    tolerance = max(_LEAST_TOLERANCE_NS, 2 * int(usual)) if isinstance(usual, int | float) else None
    for name in others:
        other = mine.filter(pl.col("metric") == name).select("time_ns", pl.col("value").alias(name))
        found = found.join_asof(
            other.sort("time_ns"),
            on="time_ns",
            strategy="nearest",
            tolerance=tolerance or _LEAST_TOLERANCE_NS,
        )
    return found


def _list_rates(pipe: Pipe, gpu: Gpu | None) -> dict[str, float]:
    """Operations a cycle of the whole device by precision, the pipe's usual one first."""
    units = gpu.number("units") if gpu else None
    architecture = (gpu.text("architecture") if gpu else None) or ""
    known = dict(FLOP_PER_CLOCK.get(architecture, {}))
    if architecture in INT32_PER_CLOCK:
        known["int32"] = INT32_PER_CLOCK[architecture]
    if units is None:
        return {}
    return {p: units * known[p] for p in pipe.precisions if p in known}


def _explain(
    pipe: Pipe, gpu: Gpu | None, name: str | None, rates: dict[str, float], *, has_clock: bool
) -> str:
    if not name:
        return "the recording does not name the device (--set gpu=NAME)"
    if gpu is None:
        return f"'{name}' is not in the table of GPUs"
    if not rates:
        return f"no peak of {pipe.name} is known for {gpu.name}"
    if not has_clock:
        return "the SM clock was not recorded"
    usual, rate = next(iter(rates.items()))
    units = gpu.number("units") or 1
    kind = "FLOP" if pipe.is_float else "operations"
    return f"{units:.0f} SMs x {rate / units:.0f} {kind} a cycle ({usual}) x measured clock"


def _add_up(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The sum of a device's floating point; none where a part of it is not known."""
    known = {row["metric"] for row in rows}
    twice = {ANY_TENSOR} if known & _PARTS_OF_TENSOR else set[str]()
    if _DFMA in known:
        twice.add(_DMMA)
    parts = [
        row
        for row in rows
        if PIPES[str(row["metric"])].is_float and str(row["metric"]) not in twice
    ]
    if len(parts) < 2:
        return []
    answer: dict[str, object] = {
        "pipe": ALL,
        "basis": " + ".join(PIPES[str(row["metric"])].name for row in parts),
        "samples": min(int(str(row["samples"])) for row in parts),
    }
    for name in ("tflops", "low_tflops", "high_tflops"):
        values = [row.get(name) for row in parts]
        if all(isinstance(value, float) for value in values):
            answer[name] = sum(value for value in values if isinstance(value, float))
    return [answer]
