"""How many joules a device used between two moments, and how wrong that may be.

A GPU tells its energy in one of two ways, and neither at any moment that is asked for:

- a counter of joules that jumps a few times a second (nvmlDeviceGetTotalEnergyConsumption). What
  it showed before a moment had been used by then; what it jumped to after a reading that was made
  later than the moment had not. The two bound what it would have shown, whatever its period.
- power, averaged over a time that depends on the GPU: a second on NVIDIA's from Ampere on except
  GA100, hardly any before (NVML API reference, nvmlDeviceGetPowerUsage), and made anew ten times a
  second; A100 and H100 measure for a quarter of the time only (Yang, Adamek, Armour: Part-time
  Power Measurements, arXiv:2312.02741). What it integrates to is shifted by half of that time, and
  each end of an interval may be wrong by all of it.

The sensor's own accuracy, 5 % by NVIDIA's documentation of the older ones, is in neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError

COUNTER, POWER = "counter", "power"
# RAPL's zones that hold no other (docs.kernel.org/power/powercap): of several names for a package
# those of Linux and of AMD's driver.
HOST_PARTS = re.compile(
    r"(?:package|cpu|socket)[- ]?\d+(?: dram)?|dram(?:[- ]?\d+)?", re.IGNORECASE
)
# The names that importers and our own recordings give (core/metric_names.py), the best first.
_POWERS = ("instantaneous power", "power", "average power")
_SECOND = 1_000_000_000
# A value stays for a tenth of a second (arXiv:2312.02741, A100, H100 and consumer cards).
_UPDATE_NS = 100_000_000
_AVERAGED = "average power"  # NVML_FI_DEV_POWER_AVERAGE: over a second, on any device
_INSTANT = "instantaneous power"  # NVML_FI_DEV_POWER_INSTANT
_INSTANT_NS = 25_000_000  # arXiv:2312.02741: what A100 and H100 average over
_AMPERE = (8, 0)  # GA100; from 8.6 on power is averaged over a second


class Meter(NamedTuple):
    """What is known of one device's energy.

    `marks`: time_ns, joules since some moment, in order of time; between two the energy was used
    evenly as far as anybody knows. `readings`: time_ns and value as recorded. `span`: from when to
    when energy can be told. `blur_ns`: how much time of either end of an interval may be counted
    wrongly, of power. Of a part of the host `device_id` is null, and `source` names the part.
    """

    rank: int
    device_id: int | None
    method: str
    marks: pl.DataFrame
    readings: pl.DataFrame
    span: tuple[int, int]
    blur_ns: int = 0
    source: str | None = None


def list_meters(run: Run) -> list[Meter]:
    """The meters of a run's devices, by rank and device: a counter where there is one, else power.

    A counter that was reset makes one for each part: no energy is told across a reset. Raises
    MissingDataError where no device has a meter.
    """
    found = run.once(_list_meters)
    if not found:
        why = "no device has several samples of its power, nor an energy counter that moved"
        spans = run.scan("counters").filter(
            pl.col("metric") == "energy", pl.col("from_ns").is_not_null()
        )
        if spans.head(1).collect().height:
            why = "it has the energy of whole intervals (sightline report), not of single moments"
        raise MissingDataError(
            "energy cannot be computed",
            why=why,
            hint="sightline run --for energy -- COMMAND  records both",
        )
    return found


def list_host_meters(run: Run) -> list[Meter]:
    """The meters of the host: CPU packages and their memory, by RAPL's names; none is not an error.

    A package's own parts (core, uncore) are in it, and the platform (psys) holds all of them: these
    are left out, so that the rest may be added (Intel SDM, volume 3B, "RAPL Domains").
    """
    return run.once(_list_host_meters)


def _list_host_meters(run: Run) -> list[Meter]:
    rows = _read_samples(run, "source", pl.col("device_id").is_null())
    found = []
    for (rank, source), mine in rows.group_by("rank", "source", maintain_order=True):
        name = str(source)
        if not HOST_PARTS.fullmatch(name):
            continue
        readings = _split_metrics(mine)
        counted = _make_counters(int(str(rank)), None, readings.get("energy"))
        if not counted and (power := readings.get("power")) is not None and power.height > 1:
            # The mean of the time since the reading before.
            counted = [_make_power(int(str(rank)), None, power, _INSTANT, None)]
        found += [meter._replace(source=name) for meter in counted]
    return found


def _list_meters(run: Run) -> list[Meter]:
    rows = _read_samples(run, "device_id")
    found = []
    capabilities = _read_capabilities(run)
    for (rank, device), mine in rows.group_by("rank", "device_id", maintain_order=True):
        readings = _split_metrics(mine)
        key = int(str(rank)), int(str(device))
        counted = _make_counters(*key, readings.get("energy"))
        if counted:
            found += counted
            continue
        for name in _POWERS:
            if name in readings and readings[name].height > 1:
                found.append(_make_power(*key, readings[name], name, capabilities.get(key)))
                break
    return found


def _split_metrics(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    parts = rows.group_by("metric")
    return {str(metric): part.select("time_ns", "value") for (metric,), part in parts}


def _read_samples(run: Run, place: str, *more: pl.Expr) -> pl.DataFrame:
    """Samples of energy counters and of power: rank, place, metric, time_ns and value, in order."""
    key = ["rank", place, "metric", "time_ns"]
    return (
        scan_metrics(run, ("energy", *_POWERS))
        .filter(
            pl.col(place).is_not_null(),
            *more,
            pl.col("value").is_finite(),
            # With a beginning it is the energy of an interval, no counter.
            ((pl.col("metric") == "energy") & (pl.col("unit") == "J") & pl.col("from_ns").is_null())
            | ((pl.col("metric") != "energy") & (pl.col("unit") == "W")),
        )
        .select(*key, "value")
        .collect()
        .unique(key, keep="last")
        .sort("rank", place, "time_ns")
    )


def scan_metrics(run: Run, wanted: Sequence[str]) -> pl.LazyFrame:
    """The rows of `counters` of some metrics, under the names that are asked for.

    Some importers leave the unit behind the name, and some write it in another case.
    """
    names = run.scan("counters").select(pl.col("metric").unique()).collect().to_series()
    known = {name.lower(): name for name in wanted}
    ours = {
        name: known[plain]
        for name in names
        if (plain := re.sub(r" \[[^\]]*\]$", "", name).lower()) in known
    }
    kind = pl.Enum(list(wanted))  # of millions of rows, numbers are compared faster than texts
    return (
        run.scan("counters")
        .filter(pl.col("metric").is_in(list(ours)))
        .with_columns(pl.col("metric").replace_strict(ours, default=None, return_dtype=kind))
    )


def _read_capabilities(run: Run) -> dict[tuple[int, int], str | None]:
    devices = run.table("devices").select("rank", "device_id", "compute_capability")
    return {(rank, device): text for rank, device, text in devices.iter_rows()}


def _make_counters(rank: int, device: int | None, readings: pl.DataFrame | None) -> list[Meter]:
    if readings is None:
        return []
    reset = (pl.col("value") < pl.col("value").shift(1)).fill_null(value=False).cum_sum()
    found = []
    for part in readings.with_columns(part=reset).partition_by("part", include_key=False):
        jumped = _list_jumps(part)
        marks = jumped.select(
            time_ns=pl.col("before") + (pl.col("time_ns") - pl.col("before")) // 2, joules="value"
        )
        # Behind the last jump nobody knows how much more was used.
        if marks.height > 2:
            span = marks.item(0, "time_ns"), jumped.item(-1, "before")
            found.append(Meter(rank, device, COUNTER, marks, part, span))
    return found


def _list_jumps(readings: pl.DataFrame) -> pl.DataFrame:
    """The readings that are the first to show a value, and `before`, the one before each.

    The counter jumped between the two.
    """
    value = pl.col("value")
    return readings.with_columns(before=pl.col("time_ns").shift(1)).filter(value > value.shift(1))


def _make_power(
    rank: int, device: int | None, readings: pl.DataFrame, name: str, capability: str | None
) -> Meter:
    window = _find_window(name, capability)
    # A value is the mean of the time before it: its middle is half of that time ago.
    at = pl.col("time_ns") - window // 2
    step = (pl.col("time_ns") - pl.col("time_ns").shift(1)).fill_null(0) / _SECOND
    mean = (pl.col("value") + pl.col("value").shift(1).fill_null(pl.col("value"))) / 2
    marks = readings.select(time_ns=at, joules=(step * mean).cum_sum())
    span = marks.item(0, "time_ns"), marks.item(-1, "time_ns")
    return Meter(rank, device, POWER, marks, readings, span, window // 2 + _UPDATE_NS)


def _find_window(name: str, capability: str | None) -> int:
    """Over how many ns a value of power is averaged; the longest where the GPU is not known."""
    if name == _INSTANT:
        return _INSTANT_NS
    parts = (capability or "").split(".")
    known = tuple(map(int, parts)) if len(parts) == 2 and all(map(str.isdigit, parts)) else None
    is_instant = name != _AVERAGED and known is not None and known <= _AMPERE
    return _INSTANT_NS if is_instant else _SECOND


def measure_energy(meter: Meter, starts: pl.Series, ends: pl.Series) -> pl.DataFrame:
    """energy_j, low_j and high_j of intervals; null where the meter does not cover one.

    The true energy lies between low_j and high_j if the sensor is accurate.
    """
    first, last = meter.span
    is_covered = (starts >= first) & (ends <= last) & (starts <= ends)
    joules = interpolate(meter.marks, "joules", ends) - interpolate(meter.marks, "joules", starts)
    bound = _bound_counter if meter.method == COUNTER else _bound_power
    low, high = bound(meter, starts, ends, joules)
    table = pl.DataFrame({"energy_j": joules, "low_j": low, "high_j": high})
    return table.select(pl.when(is_covered).then(pl.all()))


def interpolate(marks: pl.DataFrame, name: str, at: pl.Series) -> pl.Series:
    """A column between the marks, in a straight line; its first and last value beyond them."""
    times, values = marks.get_column("time_ns"), marks.get_column(name).cast(pl.Float64)
    right = times.search_sorted(at, side="right").cast(pl.Int64).clip(1, times.len() - 1)
    a, b = times.gather(right - 1), times.gather(right)
    share = ((at - a) / (b - a)).clip(0, 1).fill_nan(0)
    low = values.gather(right - 1)
    return (low + share * (values.gather(right) - low)).alias(name)


def _bound_counter(
    meter: Meter, starts: pl.Series, ends: pl.Series, _: pl.Series
) -> tuple[pl.Series, pl.Series]:
    low = _used_before(meter.readings, ends) - _used_by(meter.readings, starts)
    high = _used_by(meter.readings, ends) - _used_before(meter.readings, starts)
    return low.clip(lower_bound=0), high


def _used_before(readings: pl.DataFrame, at: pl.Series) -> pl.Series:
    """What the counter showed last: at least that was used by then."""
    times, values = readings.get_columns()
    place = times.search_sorted(at, side="right").cast(pl.Int64) - 1
    return values.gather(place.clip(lower_bound=0))


def _used_by(readings: pl.DataFrame, at: pl.Series) -> pl.Series:
    """What it jumped to after a reading at that moment or later: no more was used by then.

    The jump itself came after that reading, so what it counts ends after the moment.
    """
    jumped = _list_jumps(readings)
    place = jumped.get_column("before").search_sorted(at, side="left").cast(pl.Int64)
    return jumped.get_column("value").gather(place.clip(upper_bound=jumped.height - 1))


def _bound_power(
    meter: Meter, starts: pl.Series, ends: pl.Series, joules: pl.Series
) -> tuple[pl.Series, pl.Series]:
    """Each end wrong by the blur, at the widest difference of power seen; the rest by chance.

    By chance: what a reading does not see of its own time is as different as the next reading is.
    """
    value = meter.readings.get_column("value")
    spread = float(value.max() or 0) - float(value.min() or 0)  # type: ignore[arg-type]
    gaps = meter.readings.get_column("time_ns").diff().drop_nulls()
    gap_s = float(gaps.max() or 0) / _SECOND  # type: ignore[arg-type]
    usual_s = max(float(gaps.median() or 0), _UPDATE_NS) / _SECOND  # type: ignore[arg-type]
    noise = float(value.diff().drop_nulls().std() or 0)  # type: ignore[arg-type]
    samples = (ends - starts) / _SECOND / usual_s
    edges = 2 * spread * (meter.blur_ns / _SECOND + gap_s)
    wrong = edges + 2 * noise * usual_s * samples.sqrt()
    return (joules - wrong).clip(lower_bound=0), joules + wrong
