"""Causes from excerpts beside those of the whole: what comes first, and whether its cost is near.

The same recording is asked twice, once in full and once as if it were long. Nothing of how excerpts
are chosen or weighed is used: what the rules say of the whole run is the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import sightline
from sightline.core.model.declare import Finding
from sightline.diagnosis.causes import find_causes


@dataclass(frozen=True)
class Compared:
    """The first finding of both, its cost in the whole run, and the range that excerpts give."""

    whole: str | None
    sampled: str | None
    cost_ns: int | None
    low_ns: float | None
    high_ns: float | None
    asked: int
    steps: int
    second: str | None  # of the whole run, to see near ties

    @property
    def is_same(self) -> bool:
        """Whether both put the same first."""
        return self.whole == self.sampled

    @property
    def is_inside(self) -> bool | None:
        """Whether the true cost lies in the range; None where there is none to compare."""
        if not self.is_same or self.cost_ns is None or self.low_ns is None or self.high_ns is None:
            return None
        return self.low_ns <= self.cost_ns <= self.high_ns


def compare_causes(paths: list[str]) -> Compared | None:
    """The recording asked twice; None where it is not one that excerpts could stand for."""
    run = sightline.open(*paths)
    found = find_causes(run, most_whole=0)
    if not found.sample:
        return None
    truth = _judged(find_causes(sightline.open(*paths), whole=True).findings)
    made = _judged(found.findings)
    low, high = (made[0].cost_range or (None, None)) if made else (None, None)
    return Compared(
        truth[0].rule if truth else None,
        made[0].rule if made else None,
        truth[0].cost_ns if truth else None,
        low,
        high,
        found.sample["asked"],
        found.sample["steps"],
        truth[1].rule if len(truth) > 1 else None,
    )


def _judged(found: list[Finding]) -> list[Finding]:
    return [f for f in found if not f.abstained]
