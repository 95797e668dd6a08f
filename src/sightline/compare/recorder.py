"""Sides of which recording took another share: they are compared without their recorders."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from sightline.compare.comparability import Check
from sightline.compare.sample import Sample, take_sample
from sightline.core.units import format_ns, format_pct
from sightline.replay.unrecorded import remove_recorder, remove_recorders

# Recorders that take nearly the same share of both sides' steps leave their ratio as it is, and an
# estimate would only add its own error: half of what it is usually off by (docs/accuracy.md).
LEAST_APART = 0.08


def bring_to_one_pace(
    before: Sequence[Sample], after: Sequence[Sample]
) -> tuple[Sequence[Sample], Sequence[Sample], Check | None]:
    """Both sides as they are, or without their recorders where these took another share of each."""
    samples = (*before, *after)
    runs = [sample.run for sample in samples if sample.run is not None]
    if len(runs) < len(samples):
        return before, after, None
    known = remove_recorders(runs) if _is_one_setup(samples) else [*map(remove_recorder, runs)]
    of_sides = (known[: len(before)], known[len(before) :])
    shares = [fmean(0.0 if k is None else 1 - k.ns / k.recorded_ns for k in s) for s in of_sides]
    if abs(shares[1] - shares[0]) < LEAST_APART:
        return before, after, None
    recorded = [format_ns(fmean(sample.step_ns for sample in side)) for side in (before, after)]
    text = (
        f"recording, and a slower host, took about {format_pct(100 * shares[0])} of a step before "
        f"and {format_pct(100 * shares[1])} after: both sides are compared without the recorder, "
        f"by an estimate; as recorded, a step took {recorded[0]} before and {recorded[1]} after"
    )
    bare = [
        [s if k is None else take_sample(k.run, s.name) for s, k in zip(side, of, strict=True)]
        for side, of in zip((before, after), of_sides, strict=True)
    ]
    return bare[0], bare[1], Check("recorder", "limits", text, *(100 * share for share in shares))


def _is_one_setup(samples: Sequence[Sample]) -> bool:
    """Whether all were recorded in one way on GPUs of one kind.

    Of another machine or another version of the framework a faster host is part of the change.
    """
    kinds = {(f.devices, f.tools, f.versions, f.options) for f in (s.facts for s in samples)}
    return len(kinds) == 1
