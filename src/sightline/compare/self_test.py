"""A recording against itself: both halves of its steps are of one program, so nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.compare.sample import Sample
from sightline.compare.statistics import MIN_STEPS, compare_runs, measure_spread


def compare_halves(sample: Sample) -> dict[str, Any]:
    """How the two halves of a run's steps differ, and whether the test says that they do.

    `ratio` to `p_value` are null where a half has too few steps to be tested.
    """
    half = len(sample.steps) // 2
    halves: Sequence[Sequence[float]] = (sample.steps[:half], sample.steps[half : 2 * half])
    row = {"name": sample.name, "steps": len(sample.steps), "needed": 2 * MIN_STEPS}
    if half < MIN_STEPS:
        return row | dict.fromkeys(("ratio", "low", "high", "p_value", "differs"))
    one, other = map(measure_spread, halves)
    found = compare_runs([one], [other])
    return row | {
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "p_value": found.p_value,
        "differs": found.is_significant,
    }
