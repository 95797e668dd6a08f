"""One node of a job is slower than the others.

Symptom
    A node is as busy as all others and computes less.

Why it hurts
    All others wait for it at each step.

Evidence
    The mean of clock, FLOPS or memory bandwidth of each node; but of clocks, only where the
    node is as busy as the others.

Threshold
    20 % below the median of the nodes, and one node alone (ours).

Fix
    Leave it out, and tell the operators.

False positives
    A node that has another part of the problem, with less to compute.

References
    TraceLens; NHR PathoJobs
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-slow-node", "One node of a job is slower than the others")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
