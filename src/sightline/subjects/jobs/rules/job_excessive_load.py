"""More threads than processors.

Symptom
    The load of a node is far above the number of its cores.

Why it hurts
    Threads take turns, and push each other's data out of the caches.

Evidence
    The mean load of the busiest node (cpu_load) over its processors.

Threshold
    1.2 (ClusterCockpit, excessivecpuload_threshold_factor).

Fix
    Start fewer threads: OMP_NUM_THREADS, workers of DataLoaders.

False positives
    Threads that wait for a network file system count as load, too.

References
    ClusterCockpit, configs/tagger/jobclasses/highload.json
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-excessive-load", "More threads than processors")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
