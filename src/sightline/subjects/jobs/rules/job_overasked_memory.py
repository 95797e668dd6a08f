"""Much more memory was asked for than used.

Symptom
    A job holds 512 GB and uses 20.

Why it hurts
    Cores beside it cannot be given to others.

Evidence
    The most memory that it held, from accounting, Jobstats' summary or series, of what it asked
    for. Jobs with nodes of their own are left out.

Threshold
    35 % of 16 GB or more (Job Defense Shield, excess-cpu-memory).

Fix
    Ask for a fifth more than it used.

False positives
    Short peaks between two samples of the accounting.

References
    Job Defense Shield: excess-cpu-memory
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-overasked-memory", "Much more memory was asked for than used")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
