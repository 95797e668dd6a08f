"""A job stopped working before its end.

Symptom
    A job runs, and nothing is computed any more.

Why it hurts
    All of its nodes are held until its time is over.

Evidence
    How long, to the end of the job, all GPUs (or processors) have been idle after they were
    not; or GPUs that draw half of their power at full utilization; or processors without FLOPs
    and memory traffic.

Threshold
    Ten minutes or more (ClusterCockpit's least length of a job).

Fix
    Look where its ranks stand, and end it; let it end by itself next time.

False positives
    A last phase that only writes results; notebooks.

References
    PyTorch documentation: TORCH_NCCL_ASYNC_ERROR_HANDLING
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-hang", "A job stopped working before its end")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
