"""Joules of the whole recording: of GPUs and of the host, for each unit of work, and as CO2.

`units` is how many tokens, requests or samples were made in the recording: nothing in it says so,
and without it no figure is made for each. `flop` is how many floating-point operations the work
took, where that is known (6 x parameters x tokens of training a transformer, or a profiler's sum);
without it the pipes' activity tells an upper bound, where that was sampled. `g_per_kwh` is the
grid's grams of CO2 for each kWh, which depends on place and time: there is no default.

The host's joules are those of CPU packages and their memory (RAPL), not of fans, disks, network and
losses of the power supply. Rows are over the time that each meter covers; sums are of rows whose
times may differ by a reading.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import polars as pl

from sightline.core.model.columns import duration, number, real, text
from sightline.core.model.declare import Analysis, Param
from sightline.core.model.run import Run
from sightline.errors import MissingDataError, RequestError
from sightline.timeline.energy import Meter, list_host_meters, list_meters, measure_energy

GPUS, HOST, ALL = "all GPUs", "host", "GPUs and host"
_J_PER_KWH = 3.6e6
_ANY_FLOAT = "all floating point"
ANALYSIS = Analysis(
    "energy_to_solution",
    "How many joules did the work take, in all and for each unit?",
    (
        text("part", f"a GPU, '{GPUS}', a part of the host, '{HOST}', or '{ALL}'", required=True),
        number("rank", "rank of the process; null for sums"),
        number("device_id", "device; null for sums and the host"),
        duration("measured_ns", "for how long its meter counted; of sums the longest"),
        real("energy_j", "best value", "J"),
        real("low_j", "at least", "J"),
        real("high_j", "at most", "J"),
        real("power_w", "energy over time, of sums the sum", "W"),
        real("j_per_unit", "joules for each unit", "J"),
        real("low_j_per_unit", "at least", "J"),
        real("high_j_per_unit", "at most", "J"),
        real("tflops_per_w", "10¹² floating-point operations a joule", "TFLOP/s/W"),
        text("flop_source", "where the operations come from"),
        real("co2_g", "grams of CO2 at the given factor", "g"),
        real("low_co2_g", "at least", "g"),
        real("high_co2_g", "at most", "g"),
    ),
    needs=("counters",),
    params=(
        Param("units", 0, "how many tokens, requests or samples were made; 0: not known"),
        Param("flop", "", "floating-point operations of all the work, such as 1.2e18"),
        Param("g_per_kwh", "", "grams of CO2 for each kWh of the grid, such as 380"),
    ),
    notes=(
        "Bounds of a sum are the sums of the bounds.",
        "Joules of GPUs are those of their boards, joules of hosts those of RAPL: neither is the "
        "power drawn at the plug.",
    ),
)


def run(run: Run, *, units: int, flop: str, g_per_kwh: str) -> pl.DataFrame:
    """GPUs in order, their sum, the parts of the host, their sum, and the sum of both."""
    if units < 0:
        raise RequestError(f"{units} is not a number of units", hint="--set units=120000")
    grid, work = _read_amount("g_per_kwh", g_per_kwh), _read_amount("flop", flop)
    gpus = _sum_meters(list_meters(run))
    host = _sum_meters(list_host_meters(run))
    rates = {} if work is not None else _list_rates(run)
    for row in gpus:
        rate = rates.get((row["rank"], row["device_id"]))
        row["flop_per_s"] = rate
    rows = [*gpus, _add_up(gpus, GPUS)]
    if host:
        rows += [*host, _add_up(host, HOST), _add_up([*gpus, *host], ALL)]
    for row in rows:
        _divide(row, units, work, grid)
    schema = {c.name: c.dtype for c in ANALYSIS.columns}
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def _read_amount(name: str, value: str) -> float | None:
    """A number above zero; None where none was given."""
    if not value:
        return None
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not isfinite(number) or number <= 0:
        raise RequestError(
            f"{value!r} is not a value for {name}", why="it must be a number above 0"
        )
    return number


def _sum_meters(meters: list[Meter]) -> list[dict[str, Any]]:
    """A row for each device or part of the host, over all parts of its meter."""
    found: dict[Any, dict[str, Any]] = {}
    for meter in meters:
        first, last = meter.span
        told = measure_energy(meter, pl.Series([first]), pl.Series([last])).row(0, named=True)
        part = meter.source or f"GPU {meter.device_id}"
        row = found.setdefault(
            (meter.rank, part),
            {
                "part": part,
                "rank": meter.rank,
                "device_id": meter.device_id,
                **dict.fromkeys(("measured_ns", "energy_j", "low_j", "high_j"), 0),
            },
        )
        row["measured_ns"] += last - first
        for name, joules in told.items():
            row[name] += joules or 0.0
    for row in found.values():
        row["power_w"] = row["energy_j"] / (row["measured_ns"] / 1e9)
    return list(found.values())


def _add_up(rows: list[dict[str, Any]], part: str) -> dict[str, Any]:
    names = ("energy_j", "low_j", "high_j", "power_w")
    answer: dict[str, Any] = {name: sum(row[name] for row in rows) for name in names}
    answer |= {"part": part, "measured_ns": max(row["measured_ns"] for row in rows)}
    known = [row["flop_per_s"] for row in rows if row["device_id"] is not None]
    # Where one GPU's rate is not known, neither is the sum's.
    if known and None not in known:
        answer["flop_per_s"] = sum(known)
    return answer


def _divide(row: dict[str, Any], units: int, flop: float | None, grid: float | None) -> None:
    """Fill in what is for each unit, watt and kWh."""
    bounds = {"": "energy_j", "low_": "low_j", "high_": "high_j"}
    # Units and operations are of all the work, so a part's joules are for each of all of them.
    for prefix, name in bounds.items():
        if units:
            row[f"{prefix}j_per_unit"] = row[name] / units
        if grid is not None:
            row[f"{prefix}co2_g"] = row[name] / _J_PER_KWH * grid
    if flop is not None:
        if row["part"] in (GPUS, ALL) and row["energy_j"]:
            row["tflops_per_w"] = flop / row["energy_j"] / 1e12
            row["flop_source"] = "given"
    elif row.get("flop_per_s") and row["power_w"]:
        row["tflops_per_w"] = row["flop_per_s"] / row["power_w"] / 1e12
        row["flop_source"] = "activity of the pipes: at most"


def _list_rates(run: Run) -> dict[tuple[int, int], float]:
    """FLOP/s of each device by its pipes' activity; none where that was not sampled."""
    try:
        rows = run.ask("achieved_tflops")
    except MissingDataError:
        return {}
    found = {}
    for (rank, device), mine in rows.group_by("rank", "device_id", maintain_order=True):
        whole = mine.filter(pl.col("pipe") == _ANY_FLOAT)
        floats = mine.filter(~pl.col("pipe").is_in(["INT", "tensor IMMA"]))
        row = whole if whole.height else floats
        if row.height == 1 and row.item(0, "tflops") is not None:
            found[int(str(rank)), int(str(device))] = 1e12 * row.item(0, "tflops")
    return found
