"""Processors of a job had little to do.

Symptom
    Half of the cores are idle.

Why it hurts
    They are held and do nothing.

Evidence
    Time of its processors over its length, or use or load of its nodes (cpu_user, cpu_load). Of
    shared nodes only what is the job's own counts. Jobs with GPUs are left out: these need not
    use their processors.

Threshold
    65 % (Jobstats' limit for a red figure).

Fix
    Ask for as many cores as the program has threads, and check that they are not pinned to one.

False positives
    Half of the hardware threads is not judged, unless the peak of a node's load is known (in a
    cluster.json): of cores with two threads it may be all of them.
    Programs that are bound by memory bandwidth and run best on fewer cores.

References
    Jobstats; ClusterCockpit, configs/tagger/jobclasses/lowload.json
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-low-cpu-load", "Processors of a job had little to do")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
