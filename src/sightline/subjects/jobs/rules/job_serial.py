"""A serial program was given several cores.

Symptom
    Of 32 cores one is busy.

Why it hurts
    The others are held and do nothing.

Evidence
    Time of its processors over its length, from accounting, Jobstats' summary, or use or load
    of its nodes.

Threshold
    One core's work, give or take 15 % (Job Defense Shield, serial-allocating-multiple).

Fix
    Ask for one core, or start the program in parallel.

False positives
    Memory that is only to be had with cores.

References
    Job Defense Shield: serial-allocating-multiple
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-serial", "A serial program was given several cores")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
