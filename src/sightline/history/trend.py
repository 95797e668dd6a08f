"""Several runs one after another: how each differs from the one before and from the first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sightline.compare.comparison import compare_samples
from sightline.compare.sample import Sample
from sightline.compare.statistics import Floor

SCHEMA = "sightline-trend/1"


def compare_trend(samples: Sequence[Sample], floor: Floor | None = None) -> dict[str, Any]:
    """A row per run, in order; times are ns of its mean step.

    `parts` are those of the waterfall. `since_first` and `since_last` are ratios, the latter of the
    run before; `verdict` is that of the comparison with it, and `explains` the operation whose
    change is largest in it. The first run has none of these.
    """
    rows: list[dict[str, Any]] = [_describe_run(samples[0])]
    for before, after in pairwise(samples):
        data = compare_samples([before], [after], floor)
        if not rows[-1]["parts"]:
            rows[-1]["parts"] = {r["part"]: r["before_ns"] for r in data["waterfall"]}
        largest = data["pairs"][0] if data["pairs"] else None
        rows.append(
            {
                **_describe_run(after),
                "parts": {r["part"]: r["after_ns"] for r in data["waterfall"]},
                "since_first": _divide(after, samples[0]),
                "since_last": _divide(after, before),
                "verdict": data["verdict"],
                "explains": largest
                and {k: largest[k] for k in ("part", "label", "kind", "delta_ns")},
            }
        )
    return {"schema": SCHEMA, "runs": rows}


def _describe_run(sample: Sample) -> dict[str, Any]:
    return {
        "name": sample.name,
        "steps": sample.length.count,
        "source": sample.source,
        "devices": sample.devices,
        "step_ns": sample.step_ns,
        "parts": {},
        "since_first": None,
        "since_last": None,
        "verdict": None,
        "explains": None,
    }


def _divide(sample: Sample, other: Sample) -> float | None:
    return sample.step_ns / other.step_ns if other.step_ns else None
