"""GPUs of a job had little to do.

Symptom
    GPUs with work, busy for a few per cent of the time.

Why it hurts
    Most of their time is paid for and lost.

Evidence
    The mean utilization of the GPUs that had work, or SM active where that is recorded and
    lower.

Threshold
    25 % (Job Defense Shield, low-gpu-efficiency; Jobstats).

Fix
    Find what the GPU waits for, on the running job: sightline attach.

False positives
    Jobs that wait for requests from outside. Utilization counts time with any kernel: what is
    above 25 % may be bad, too.

References
    Jobstats: https://github.com/PrincetonUniversity/jobstats
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-underused-gpus", "GPUs of a job had little to do")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
