"""What the rules about energy share: a finding in joules, stretches worth one, and their words."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sightline.core.model.declare import Price
from sightline.core.model.run import Run
from sightline.core.units import (
    format_bytes,
    format_hours,
    format_joules,
    format_pct,
    format_several,
)
from sightline.diagnosis.build import MAX_ROWS, Evidence, price_part
from sightline.timeline.device_use import DEVICE, IDLE, has_use, measure_all

# A GPU that is idle for less is between two jobs or steps: Kubernetes' cluster autoscaler takes a
# node for unneeded after ten minutes (--scale-down-unneeded-time, default 10m).
LEAST_NS = 600 * 1_000_000_000
_KWH_J = 3.6e6
_LISTED = 4


def list_long_stretches(run: Run, state: str) -> pl.DataFrame:
    """Stretches of a state of ten minutes and more, with joules; none where use was not sampled."""
    if not has_use(run):
        return pl.DataFrame(schema={"energy_j": pl.Float64})
    found = run.ask("energy_of_states").filter(pl.col("state") == state)
    # Memory that comes or goes ends no idling.
    follows = pl.col("start_ns") == pl.col("end_ns").shift(1)
    number = (~follows.over(DEVICE)).fill_null(value=True).cum_sum()
    whole = pl.col("duration_ns").sum().over(*DEVICE, number)
    return found.filter(whole >= LEAST_NS)


def price_energy(run: Run, cost_j: float, gain_j: float | None) -> tuple[Price, Price | None]:
    """Joules of all that were measured: a cost is at most those, a gain at most the cost."""
    whole = measure_all(run)
    return price_part(min(cost_j, whole), gain_j, whole, "j")


def show_stretches(stretches: pl.DataFrame, lines: Sequence[str]) -> Evidence:
    """Stretches of devices' time as evidence: where they are, and those that used most."""
    largest = stretches.sort("energy_j", "start_ns", descending=[True, False], nulls_last=True)
    return Evidence(
        lines,
        rows=largest.head(MAX_ROWS).to_dicts(),
        where={
            "ranks": stretches.get_column("rank").unique().sort().to_list(),
            "devices": stretches.get_column("device_id").unique().sort().to_list(),
            "time_ranges": largest.select("start_ns", "end_ns").head(MAX_ROWS).rows(),
        },
    )


def write_share(run: Run, joules: float) -> str:
    """Joules, as kWh too where that is one, and what share of all that is."""
    pct = format_pct(100 * joules / max(measure_all(run), 1e-9))
    kwh = f" ({joules / _KWH_J:,.1f} kWh)" if joules >= _KWH_J / 10 else ""
    return f"{format_joules(joules)}{kwh}, {pct} of the measured energy"


def write_bounds(stretches: pl.DataFrame) -> str:
    """Between which bounds the joules of stretches lie."""
    low, high = (float(stretches.get_column(name).sum()) for name in ("low_j", "high_j"))
    return f"between {format_joules(low)} and {format_joules(high)}, if the sensor is accurate"


def name_gpus(rows: pl.DataFrame) -> str:
    """'GPU 3', 'GPUs 0 to 7', 'GPUs 1 and 3' or '9 GPUs'."""
    places = rows.select(DEVICE).unique().sort(DEVICE).rows()
    numbers = sorted({device for _, device in places})
    if len(numbers) < len(places):
        return format_several(len(places), "GPU")
    if len(numbers) == 1:
        return f"GPU {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"GPUs {numbers[0]} to {numbers[-1]}"
    if len(numbers) > 4:
        return f"{len(numbers)} GPUs"
    return f"GPUs {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def describe_devices(stretches: pl.DataFrame) -> list[str]:
    """A line for each of the devices that used most: how long, at what power, memory held."""
    rows = (
        stretches.group_by(DEVICE, maintain_order=True)
        .agg(
            pl.col("duration_ns", "measured_ns", "energy_j").sum(),
            memory=pl.col("memory_used").filter(pl.col("held")).max(),
        )
        .sort("energy_j", *DEVICE, descending=[True, False, False])
    )
    lines = []
    for row in rows.head(_LISTED).iter_rows(named=True):
        watts = row["energy_j"] / (row["measured_ns"] / 1e9) if row["measured_ns"] else None
        at = "" if watts is None else f" at {watts:.0f} W"
        held = "" if row["memory"] is None else f", with {format_bytes(row['memory'])} taken"
        lines.append(f"GPU {row['device_id']}: {format_hours(row['duration_ns'])}{at}{held}")
    if rows.height > _LISTED:
        lines.append(f"and {format_several(rows.height - _LISTED, 'more GPU')}")
    return lines


def find_parked_power(run: Run) -> dict[str, float] | None:
    """The least power at which a device idled without memory in use; None if none was seen.

    `power_w` with its bounds `low_w` and `high_w`, of the stretch that bounds it best. Stretches of
    a minute or more count: power is averaged over a second, and falls slowly when work ends.
    Recordings of several kinds of GPU tell none.
    """
    names = run.table("devices").get_column("name").unique()
    if names.len() > 1:
        return None
    seconds = pl.col("measured_ns") / 1e9
    rows = (
        run.ask("energy_of_states")
        .filter(pl.col("state") == IDLE, ~pl.col("held"), seconds >= 60)
        .select("power_w", low_w=pl.col("low_j") / seconds, high_w=pl.col("high_j") / seconds)
    )
    return rows.sort("high_w").row(0, named=True) if rows.height else None
