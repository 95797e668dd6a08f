"""What a GPU takes at each clock, as it was measured: a table that a person gives.

    mhz,busy_w,waiting_w,slowdown
    1980,642,218,1
    1755,531,201,1.06

A row is one reading at a locked clock: the power while it computes, while it waits in a
collective, and how many times as long its compute takes as at the highest clock (left out: 1 to
the ratio of the clocks, as nothing that computes is slowed down by more). Several readings of each
clock say how sure they are.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from sightline.core.algebra.student import find_quantile
from sightline.core.units import format_several
from sightline.errors import InputError

_MOST_BYTES = 1 << 20
_MOST_CLOCKS = 64
_NEEDED = ("mhz", "busy_w", "waiting_w")


@dataclass(frozen=True)
class Level:
    """A clock: mean powers with the half widths of their 95 % intervals, W; the slowdown's range.

    `slowdown` is what energy is reckoned with, `most_slowdown` what time is.
    """

    mhz: int
    busy_w: float
    busy_w_half: float
    waiting_w: float
    waiting_w_half: float
    least_slowdown: float
    slowdown: float
    most_slowdown: float


def read_power_table(path: Path) -> list[Level]:
    """The clocks of a table, the highest first. Raises InputError."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise ValueError("it has more than 1 MiB")
        rows = list(csv.DictReader(text.splitlines()))
        missing = [name for name in _NEEDED if name not in (rows[0] if rows else {})]
        if missing:
            raise ValueError(f"there is no column {missing[0]}")
        readings = [_read_row(row) for row in rows]
        return make_levels(readings)
    except (OSError, ValueError, csv.Error) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(
            f"cannot read the powers in {path}", why=why,
            hint="a line a reading:  mhz,busy_w,waiting_w  (docs/fleet.md)",
        ) from error  # fmt: skip


Reading = tuple[int, float, float, float | None]


def _read_row(row: dict[str, str | None]) -> Reading:
    mhz, busy, waiting = (float(row[name] or "") for name in _NEEDED)
    told = (row.get("slowdown") or "").strip()
    slowdown = float(told) if told else None
    if not all(map(math.isfinite, (mhz, busy, waiting, slowdown or 1.0))):
        raise ValueError("a number is malformed")
    if not 1 <= mhz <= 10_000 or not 0 < waiting <= 10_000 or not 0 < busy <= 10_000:
        raise ValueError("clocks are 1 to 10,000 MHz, powers up to 10,000 W")
    return round(mhz), busy, waiting, slowdown


def make_levels(readings: Sequence[Reading]) -> list[Level]:
    """The clocks of readings, the highest first. Raises ValueError."""
    clocks = sorted({reading[0] for reading in readings}, reverse=True)
    if not 2 <= len(clocks) <= _MOST_CLOCKS:
        raise ValueError(
            f"it has {format_several(len(clocks), 'clock')}, of 2 to {_MOST_CLOCKS} that it can "
            "have"
        )
    return [_make_level(mhz, clocks[0], [r for r in readings if r[0] == mhz]) for mhz in clocks]


def _make_level(mhz: int, highest: int, readings: Sequence[Reading]) -> Level:
    if len(readings) < 2:
        raise ValueError(
            f"there is one reading at {mhz} MHz: at least two are needed to show how much they vary"
        )
    busy, busy_half = _average([reading[1] for reading in readings])
    waiting, waiting_half = _average([reading[2] for reading in readings])
    bound = highest / mhz
    known = [reading[3] for reading in readings if reading[3] is not None]
    if mhz == highest:
        least = usual = most = 1.0
    elif len(known) < 2:
        least, usual, most = 1.0, (1 + bound) / 2, bound
    else:
        mean, half = _average(known)
        least, usual, most = (
            min(max(value, 1.0), bound) for value in (mean - half, mean, mean + half)
        )
    return Level(mhz, busy, busy_half, waiting, waiting_half, least, usual, most)


def _average(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its 95 % interval."""
    quantile = find_quantile(len(values) - 1, 0.975)
    return fmean(values), quantile * stdev(values) / math.sqrt(len(values))
