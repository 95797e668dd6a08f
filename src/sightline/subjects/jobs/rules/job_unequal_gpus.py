"""GPUs of a job have unequal work.

Symptom
    One GPU is busy throughout, others for half of the time.

Why it hurts
    The others wait for it in each step.

Evidence
    The mean utilization of each GPU with work: what the mean lies below the busiest.

Threshold
    20 % of the busiest (ClusterCockpit has 10 % for nodes; ours is twice that).

Fix
    Give each rank the same amount of work.

False positives
    Programs whose GPUs do different things on purpose (actors and learners).

References
    NHR PathoJobs, load imbalance
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-unequal-gpus", "GPUs of a job have unequal work")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
