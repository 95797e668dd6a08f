"""Nodes or cores of a job have unequal loads.

Symptom
    Some nodes of a job are busy, others are not.

Why it hurts
    Those that are done wait for those that are not.

Evidence
    The mean load of each node (cpu_load, cpu_user), and of each core where its node is busy:
    what the mean lies below the largest.

Threshold
    10 % of the largest for nodes (ClusterCockpit, node_load_imbalance_threshold_factor), 20 % for
    cores.

Fix
    Divide the work into equal or smaller parts.

False positives
    A master that only hands out work.

References
    NHR PathoJobs, load imbalance
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-unequal-load", "Nodes or cores of a job have unequal loads")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
