"""Settings that a device ran the same work at, and what another of them would have saved.

Nothing is extrapolated: only limits and clocks that were recorded are compared, on one device, and
only where the bounds of the meter tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.core.model.run import Run
from sightline.core.units import format_joules, format_several
from sightline.errors import MissingDataError
from sightline.timeline.device_use import DEVICE

# Less than this is mostly the sensor's ends: of power averaged over a second, two of sixty.
_LEAST_NS = 60 * 1_000_000_000
# The same kind of work moves as much memory for each instruction, within a tenth (ours: what a
# busy GPU of one job shows from sample to sample).
_SAME_WORK = 0.1
_LISTED = 4


class Regime(NamedTuple):
    """What a device did at one setting: its limit in W or clock in MHz, work in 10¹² cycles."""

    setting: float
    seconds: float
    work: float
    energy_j: float
    low_j: float
    high_j: float
    dram_per_work: float | None
    limited_pct: float | None

    @property
    def rate(self) -> float:
        """Work a second."""
        return self.work / self.seconds


class Choice(NamedTuple):
    """A device's costlier setting, and the one at which the same work took least."""

    device: dict[str, int]
    used: Regime
    best: Regime
    is_same_work: bool | None  # None: the memory's traffic was not sampled

    @property
    def saved_j(self) -> float:
        """What the work would have saved, by the values that favour the saving least."""
        return self.used.low_j - self.used.work * self.best.high_j / self.best.work

    @property
    def extra_s(self) -> float:
        """How much longer the same work takes."""
        return self.used.work / self.best.rate - self.used.seconds


def list_regimes(run: Run, setting: str, *by: str) -> Iterator[tuple[dict[str, Any], list[Regime]]]:
    """For each device (and value of `by`): its regimes of a minute and more, by setting.

    `setting` is a column of `energy_of_work`. Nothing where no work was measured.
    """
    try:
        rows = run.ask("energy_of_work").drop_nulls(setting)
    except MissingDataError:
        return
    work = pl.col("work_tcycles")
    limited = pl.col("power_limited_pct")
    share = pl.col("duration_ns") / pl.col("duration_ns").sum()
    key = [*DEVICE, "pipe", *by]
    told = (
        rows.group_by(*key, setting, maintain_order=True)
        .agg(
            pl.col("duration_ns", "energy_j", "low_j", "high_j").sum(),
            work_tcycles=work.sum(),
            dram_per_work=(pl.col("dram_per_work") * work).sum() / work.sum(),
            known=pl.col("dram_per_work").is_not_null().all(),
            limited_pct=pl.when(limited.is_not_null().all()).then((limited * share).sum()),
        )
        .filter(pl.col("duration_ns") >= _LEAST_NS)
        .sort(*key, setting, nulls_last=True)
    )
    for values, mine in told.group_by(key, maintain_order=True):
        yield (
            dict(zip(key, values, strict=True)),
            [
                Regime(
                    row[setting],
                    row["duration_ns"] / 1e9,
                    row["work_tcycles"],
                    row["energy_j"],
                    row["low_j"],
                    row["high_j"],
                    row["dram_per_work"] if row["known"] else None,
                    row["limited_pct"],
                )
                for row in mine.iter_rows(named=True)
            ],
        )


def choose_regime(device: dict[str, int], used: Regime, others: list[Regime]) -> Choice | None:
    """The setting at which the work of `used` took surely less; None where none did.

    The best is the one that saves most for certain: with the least energy for `used` and the most
    for the other that the meter allows.
    """
    choices = [Choice(device, used, other, _is_same_work(used, other)) for other in others]
    saving = [c for c in choices if c.saved_j > 0 and c.is_same_work is not False]
    return max(saving, key=lambda c: c.saved_j, default=None)


def _is_same_work(one: Regime, other: Regime) -> bool | None:
    a, b = one.dram_per_work, other.dram_per_work
    if a is None or b is None:
        return None
    return abs(a - b) <= _SAME_WORK * max(a, b)


def list_evidence(choices: list[Choice], unit: str) -> list[str]:
    """What the same work took at both settings of each device, and whether it was the same."""
    lines = []
    for choice in choices[:_LISTED]:
        used, best = (format_joules(r.energy_j / r.work) for r in (choice.used, choice.best))
        lines.append(
            f"GPU {choice.device['device_id']}: {used} for 10¹² active cycles at "
            f"{choice.used.setting:.0f} {unit}, {best} at {choice.best.setting:.0f} {unit}; "
            f"{max(0.0, choice.extra_s):,.0f} s longer"
        )
    if len(choices) > _LISTED:
        lines.append(f"and {format_several(len(choices) - _LISTED, 'more such pair')}")
    if all(choice.is_same_work for choice in choices):
        return [*lines, "memory traffic for each cycle of the pipe is the same at both"]
    return [*lines, "whether it was the same work is not known: DRAM activity was not sampled"]


def rate_confidence(choices: list[Choice]) -> str:
    """Medium where it is known that the work was the same, else low."""
    return "medium" if all(choice.is_same_work for choice in choices) else "low"
