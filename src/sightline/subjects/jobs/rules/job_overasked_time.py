"""Much more time was asked for than used.

Symptom
    A job asks for three days and runs for two hours.

Why it hurts
    It starts late: the scheduler has to find a gap of three days.

Evidence
    How long completed jobs ran, of the limit.

Threshold
    20 % of an hour or more (Job Defense Shield, excessive-time).

Fix
    Ask for half as much again as it takes.

False positives
    Jobs whose length is not known before.

References
    Job Defense Shield: excessive-time
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-overasked-time", "Much more time was asked for than used")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
