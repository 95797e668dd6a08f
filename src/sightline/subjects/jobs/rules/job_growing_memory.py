"""Memory grows to the end of a job.

Symptom
    Memory rises along a line.

Why it hurts
    The job ends when memory is full, and its work is lost.

Evidence
    A line through the memory of a node from the first quarter on: its growth, and how straight
    it is (R²).

Threshold
    A tenth of the final value (ClusterCockpit, memory_leak_slope_threshold), R² 0.9 (ours).

Fix
    Find what is kept.

False positives
    A result that is collected to be written at the end.

References
    ClusterCockpit, configs/tagger/jobclasses/parameters.json
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-growing-memory", "Memory grows to the end of a job")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
