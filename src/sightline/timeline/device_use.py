"""What each device was used for over time, as far as monitors sampled it.

nvidia-smi's utilization is the share of time with any kernel running; SM active is the share of SMs
that had a warp. A sample stands for the time since the one before it, or for the interval that the
recording gives it; where samples stop, nothing is known, and no state is made up.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.energy import Meter, list_meters, measure_energy, scan_metrics
from sightline.timeline.use_thresholds import EFFECTIVE_PCT, IDLE_PCT, PIPES, TINY_PCT

SHOWN, TRUE = "GPU utilization", "SM active"
DRAM, CLOCK, HELD = "DRAM active", "SM clock", "memory used"
LIMIT, REASONS = "power limit", "clock event reasons"
TEMPERATURE = "temperature"
OCCUPANCY, TRANSFERS = "SM occupancy", "memory utilization"
LOWERED = "clocks lowered by power"  # ns, a counter
_SAMPLED = (
    SHOWN, TRUE, DRAM, CLOCK, HELD, LIMIT, REASONS, TEMPERATURE, LOWERED, OCCUPANCY, TRANSFERS,
    *PIPES,
)  # fmt: skip

# Bits of NVML's clock event reasons (nvml.h): the power cap, the power brake; the thermal ones and
# the hardware's slowdown.
POWER_BITS, HEAT_BITS = 0x4 | 0x80, 0x8 | 0x20 | 0x40
# Where samples come so many times further apart than usual, some are missing (ours: a monitor that
# is late by more than one turn has lost one).
_GAP = 3
# ... but for less than a second: utilization is of the second before, or a sixth of one (NVML API
# reference, nvmlUtilization_t).
_LEAST_GAP_NS = 1_000_000_000

IDLE, SEEMING, BUSY = "idle", "busy but idle", "busy"
DEVICE = ["rank", "device_id"]
_SCHEMA = {
    "rank": pl.Int64,
    "device_id": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    **dict.fromkeys(_SAMPLED, pl.Float64),
    "state": pl.String,
}


def has_use(run: Run) -> bool:
    """Whether any device's use was sampled over time."""
    return bool(sample_use(run).height)


def sample_use(run: Run) -> pl.DataFrame:
    """A row for each sample of a device's use: rank, device_id, start_ns, end_ns, its metrics.

    Metrics are columns under their own names, null where there was no reading; `state` is IDLE,
    SEEMING or BUSY. Rows of a device do not overlap and are in order of time.
    """
    return run.once(_sample_use)


def _sample_use(run: Run) -> pl.DataFrame:
    if not run.rows("counters"):
        return pl.DataFrame(schema=_SCHEMA)
    rows = (
        scan_metrics(run, _SAMPLED)
        .filter(
            pl.col("device_id").is_not_null(),
            pl.col("source").is_null(),
            pl.col("value").is_finite(),
        )
        .select(*DEVICE, "metric", "from_ns", "time_ns", "value")
        .collect()
        .sort(*DEVICE, "time_ns", maintain_order=True)
    )
    parts = [_sample_device(mine) for _, mine in rows.group_by(DEVICE, maintain_order=True)]
    found = [part for part in parts if part.height]
    return pl.concat(found) if found else pl.DataFrame(schema=_SCHEMA)


def _sample_device(rows: pl.DataFrame) -> pl.DataFrame:
    """The samples of one device: those of its true use, or of nvidia-smi's where that has more."""
    # Of several values at one time the last one counts.
    is_last = (pl.col("time_ns") != pl.col("time_ns").shift(-1)).fill_null(value=True)
    of = {
        str(metric): part.filter(is_last)
        for (metric,), part in rows.group_by("metric", maintain_order=True)
    }
    none = pl.DataFrame(schema=rows.schema)
    base = max((of.get(TRUE, none), of.get(SHOWN, none)), key=lambda part: part.height)
    if base.height < 2:
        return pl.DataFrame(schema=_SCHEMA)
    time = pl.col("time_ns")
    usual = base.select(time.diff().median()).item()
    tolerance = max(int(usual * _GAP), _LEAST_GAP_NS)
    before = pl.when(time.diff() <= tolerance).then(time.shift(1))
    # Means overlap where a log was thinned while it was written: no time counts twice.
    start = pl.max_horizontal(pl.col("from_ns").fill_null(before), time.shift(1))
    table = base.select(
        *DEVICE,
        "time_ns",
        start_ns=pl.when(pl.col("from_ns").is_null()).then(before).otherwise(start),
    )
    for metric in _SAMPLED:
        values = of.get(metric, none).select("time_ns", pl.col("value").alias(metric))
        table = table.join_asof(values, on="time_ns", strategy="nearest", tolerance=tolerance)
    return (
        table.rename({"time_ns": "end_ns"})
        .drop_nulls("start_ns")
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .with_columns(_name_state())
        .select(list(_SCHEMA))
        .cast(_SCHEMA)  # type: ignore[arg-type]
    )


def measure_power_limited() -> pl.Expr:
    """The share of each sample's time in which the power limit lowered clocks; null if unknown.

    Of rows in order of time: by the clock event reasons, else by how far the counter of that time
    rose since the sample before.
    """
    bits = pl.col(REASONS).cast(pl.Int64) & POWER_BITS
    risen = (pl.col(LOWERED) - pl.col(LOWERED).shift(1).over(DEVICE)).clip(lower_bound=0)
    share = (risen / (pl.col("end_ns") - pl.col("start_ns"))).clip(0, 1)
    return (
        pl.when(pl.col(REASONS).is_not_null()).then((bits != 0).cast(pl.Float64)).otherwise(share)
    )


def _name_state() -> pl.Expr:
    most = pl.max_horizontal(SHOWN, TRUE)
    seems = (pl.col(SHOWN) >= EFFECTIVE_PCT) & (pl.col(TRUE) < TINY_PCT)
    return (
        pl.when(most <= IDLE_PCT)
        .then(pl.lit(IDLE))
        .when(seems)
        .then(pl.lit(SEEMING))
        .when(most.is_not_null())
        .then(pl.lit(BUSY))
        .alias("state")
    )


def list_stretches(samples: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Samples that follow each other without a gap and are alike in `by`, as one row each.

    rank, device_id, `by`, start_ns, end_ns, duration_ns, and the time-weighted mean of every other
    column.
    """
    key = [*DEVICE, *by]
    follows = pl.col("start_ns") == pl.col("end_ns").shift(1)
    alike = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in key)
    means = [n for n, t in samples.schema.items() if t == pl.Float64 and n not in by]
    number = (~(follows & alike)).fill_null(value=True).cum_sum()
    return (
        samples.with_columns(_stretch=number)
        .group_by("_stretch", *key, maintain_order=True)
        .agg(
            pl.col("start_ns").first(),
            pl.col("end_ns").last(),
            *(average_over_time(name) for name in means),
        )
        .drop("_stretch")
        .with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    )


def average_over_time(metric: str) -> pl.Expr:
    """A metric's mean, each sample by the time that it stands for."""
    length = (pl.col("end_ns") - pl.col("start_ns")).filter(pl.col(metric).is_not_null())
    mean = (pl.col(metric).drop_nulls() * length).sum() / length.sum()
    return mean.fill_nan(None).alias(metric)


def measure_stretches(run: Run, stretches: pl.DataFrame) -> pl.DataFrame:
    """The stretches with energy_j, low_j and high_j of the part of each that a meter covers.

    `measured_ns` is how long that part is: zero, and the joules null, where nothing was measured.
    Raises MissingDataError where no device has a meter.
    """
    rows = stretches.with_row_index("_row")
    parts = [_measure_part(meter, rows) for meter in list_meters(run)]
    told = (
        pl.concat(parts)
        .group_by("_row")
        .agg(pl.col("measured_ns", "energy_j", "low_j", "high_j").sum())
    )
    return (
        rows.join(told, on="_row", how="left", maintain_order="left")
        .with_columns(pl.col("measured_ns").fill_null(0))
        .drop("_row")
    )


def _measure_part(meter: Meter, rows: pl.DataFrame) -> pl.DataFrame:
    mine = (
        rows.filter(rank=meter.rank, device_id=meter.device_id)
        .select("_row", pl.col("start_ns", "end_ns").clip(*meter.span))
        .filter(pl.col("end_ns") > pl.col("start_ns"))
    )
    told = measure_energy(meter, mine.get_column("start_ns"), mine.get_column("end_ns"))
    length = pl.col("end_ns") - pl.col("start_ns")
    return pl.concat([mine.select("_row", measured_ns=length), told], how="horizontal")


def measure_all(run: Run) -> float:
    """The joules of all devices while they were measured: what shares of energy are of."""
    return float(run.ask("energy").filter(part="while measured").get_column("energy_j").sum())
