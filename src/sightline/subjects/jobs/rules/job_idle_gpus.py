"""GPUs of a job did nothing.

Symptom
    A job has four GPUs, and one is at work.

Why it hurts
    They are paid for, and others wait for them.

Evidence
    The mean utilization of each GPU over the whole job (acc_utilization), from series,
    Jobstats' summary or Slurm's gres/gpuutil. Of a mean over all GPUs only that all are idle is
    known.

Threshold
    1 % on average, in jobs of ten minutes or more (Job Defense Shield, zero-util-gpu-hours;
    ClusterCockpit, job_min_duration_seconds).

Fix
    Ask for the GPUs that the program uses, or start a process for each.

False positives
    Interactive jobs that wait for their owner; GPUs held for a later phase.

References
    Job Defense Shield: https://github.com/PrincetonUniversity/job_defense_shield
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-idle-gpus", "GPUs of a job did nothing")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
