"""A job's metrics as line protocol: what a collector would have sent, in its usual units."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sightline.core.job_metrics import METRICS
from sightline.core.line_protocol import write_line
from sightline.subjects.jobs.job import Job


def write_samples(job: Job) -> str:
    """A line each value: metric, node, part, value, second; what is missing has no line."""
    return "".join(f"{line}\n" for line in _list_lines(job))


def _list_lines(job: Job) -> Iterator[str]:
    start = int(job.row["start_ns"] or 0)
    cluster = str(job.row["cluster"] or "")
    for (metric, scope), use in job.uses.items():
        if use.values is None or metric not in METRICS:
            continue
        per = METRICS[metric].per
        for (host, element), values in zip(use.places, use.values.tolist(), strict=True):
            tags = {
                "cluster": cluster,
                "hostname": host or "",
                "type": scope,
                "type-id": element or "",
            }
            for n, value in enumerate(values):
                if not math.isnan(value):
                    moment = round((start + n * use.step_s * 1e9) / 1e9)
                    yield write_line(metric, tags, value / per, moment)
