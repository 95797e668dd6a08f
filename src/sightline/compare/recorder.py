"""Sides of which recording took another share: they are compared without their recorders."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from sightline.compare.comparability import Check
from sightline.compare.sample import Sample, take_sample
from sightline.core.units import format_pct
from sightline.replay.unrecorded import remove_recorder

# Recorders that take nearly the same share of both sides' steps leave their ratio as it is, and an
# estimate would only add its own error: half of what it is usually off by (docs/accuracy.md).
LEAST_APART = 0.08


def remove_recorders(
    before: Sequence[Sample], after: Sequence[Sample]
) -> tuple[Sequence[Sample], Sequence[Sample], Check | None]:
    """Both sides as they are, or without their recorders where these took another share of each."""
    sides = (before, after)
    if any(sample.run is None for side in sides for sample in side):
        return before, after, None
    shares = [fmean(map(_measure_share, side)) for side in sides]
    if abs(shares[1] - shares[0]) < LEAST_APART:
        return before, after, None
    text = (
        f"recording took about {format_pct(100 * shares[0])} of a step before and "
        f"{format_pct(100 * shares[1])} after: both are compared without it, by an estimate"
    )
    bare = [[_remove(sample) for sample in side] for side in sides]
    return bare[0], bare[1], Check("recorder", "limits", text, *(100 * share for share in shares))


def _measure_share(sample: Sample) -> float:
    """Which share of a step the recorder takes, 0 to 1."""
    assert sample.run is not None
    known = remove_recorder(sample.run)
    return 0.0 if known is None else 1 - known.ns / known.recorded_ns


def _remove(sample: Sample) -> Sample:
    assert sample.run is not None
    known = remove_recorder(sample.run)
    return sample if known is None else take_sample(known.run, sample.name)
