"""Kernels that ran at a lower clock than the device reached or may reach, and what held it.

The clock of a kernel is the last sample of the device's SM clock before its middle. The reference
is the device's highest clock where the recording names it, else the highest sample of the window.
`cause` is from the clock event reasons of NVML, where they were sampled too:

power-capped      software power cap (4) or external power brake (80, hexadecimal)
thermal           software or hardware thermal slowdown (20, 40)
clock-throttled   another reason, or none recorded
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.window import select_starting_in
from sightline.core.model.columns import RANK, duration, join, number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline import causes
from sightline.timeline.classes import COMPUTE, classify_ops

# Names of the SM clock: Nsight Systems' GPU metrics ("GPC Clock Frequency [MHz]"), DCGM
# (DCGM_FI_DEV_SM_CLOCK, field 100), nvidia-smi (clocks.sm, clocks.gr).
CLOCK = r"(?i)(?:gpc|sm|gr|graphics)[ _]clock|clocks?[ ._](?:sm|gr|graphics)\b"
# DCGM_FI_DEV_CLOCKS_EVENT_REASONS (field 112, before: CLOCK_THROTTLE_REASONS), NVML's bits.
REASONS = r"(?i)clocks?[ _.](?:event|throttle)[ _.]reasons"
# nvml.h, nvmlClocksEventReason*: SwPowerCap, HwPowerBrakeSlowdown; SwThermal, HwThermalSlowdown.
POWER_BITS, THERMAL_BITS = 0x04 | 0x80, 0x20 | 0x40
# A clock counts as low under 95 % of the reference (ours: boost clocks move in steps of 15 MHz, one
# percent, so that usual variation is none).
LOW_RATIO = 0.95
_BY = ["rank", "device_id"]
# Some tools count Hz, and do not always say so.
_MHZ = pl.when(pl.col("value") >= 1e6).then(pl.col("value") / 1e6).otherwise("value")

ANALYSIS = Analysis(
    "slow_clocks",
    "Which kernels ran at a low clock, and why?",
    (
        join("device_op_id", "device_ops.device_op_id", "the kernel"),
        RANK,
        number("device_id", "device", required=True),
        real("clock_mhz", "SM clock while it ran", "MHz"),
        real("best_mhz", "clock that it is compared with", "MHz"),
        number("reasons", "clock event reasons of NVML at that time, bits"),
        text("cause", "power-capped, thermal or clock-throttled", required=True),
        duration("lost_ns", "extra time it took, if it is limited by the clock"),
    ),
    needs=("device_ops", "counters"),
    notes=("Kernels limited by memory lose less: lost_ns is an upper bound.",),
    worst="lost_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per slowed kernel, in order of device and start."""
    counters = run.table("counters").drop_nulls(["value", "device_id"])
    clock = counters.filter(pl.col("metric").str.contains(CLOCK), pl.col("value") > 0)
    if clock.is_empty():
        raise MissingDataError(
            "'slow_clocks' cannot be answered", why="the recording has no samples of the SM clock"
        )
    ops = select_starting_in(run.table("device_ops"), run.ask("windows"))
    kernels = (
        classify_ops(ops, run.table("collectives"))
        .filter(pl.col("class_") == COMPUTE)
        .select(
            "device_op_id",
            *_BY,
            "start_ns",
            "end_ns",
            middle=(pl.col("start_ns") + pl.col("end_ns")) // 2,
        )
    )
    reasons = counters.filter(pl.col("metric").str.contains(REASONS))
    found = _sample_at(kernels, clock.with_columns(value=_MHZ), "clock_mhz")
    found = _sample_at(found, reasons, "reasons")
    best = clock.group_by(_BY).agg(sampled=_MHZ.max())
    found = found.join(best, on=_BY, how="left").join(_list_highest(run), on=_BY, how="left")
    length = pl.col("end_ns") - pl.col("start_ns")
    bits = pl.col("reasons").fill_null(0).cast(pl.Int64)
    return (
        found.with_columns(best_mhz=pl.max_horizontal("sampled", "highest"), reasons=bits)
        .filter(pl.col("clock_mhz") < LOW_RATIO * pl.col("best_mhz"))
        .sort(*_BY, "start_ns", "device_op_id")
        .select(
            "device_op_id",
            *_BY,
            "clock_mhz",
            "best_mhz",
            "reasons",
            cause=pl.when(bits.and_(POWER_BITS) != 0)
            .then(pl.lit(causes.POWER))
            .when(bits.and_(THERMAL_BITS) != 0)
            .then(pl.lit(causes.HEAT))
            .otherwise(pl.lit(causes.OTHER_CLOCK)),
            lost_ns=(length * (1 - pl.col("clock_mhz") / pl.col("best_mhz")))
            .round()
            .cast(pl.Int64),
        )
    )


def _sample_at(kernels: pl.DataFrame, samples: pl.DataFrame, name: str) -> pl.DataFrame:
    """The last sample before each kernel's middle."""
    values = samples.select(*_BY, pl.col("value").alias(name), t="time_ns").sort("t")
    return (
        kernels.sort("middle")
        .join_asof(values, left_on="middle", right_on="t", by=_BY, check_sortedness=False)
        .drop("t")
    )


def _list_highest(run: Run) -> pl.DataFrame:
    """The devices' highest clocks, where the recording names them."""
    return run.table("devices").group_by(_BY).agg(highest=pl.col("max_clock_hz").max() / 1e6)
