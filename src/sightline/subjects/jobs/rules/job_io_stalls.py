"""A job waits for files.

Symptom
    Nothing is computed while much is read or written.

Why it hurts
    Nodes and GPUs are held and wait.

Evidence
    Samples in which work is below a fifth of its usual level, and file traffic at half of its
    high level or more.

Threshold
    A tenth of the samples, at 10 MB/s or more (ours; SageMaker Debugger's IOBottleneck judges
    the same share).

Fix
    Read ahead and write behind; many small files into one, or onto the node's own disk.

False positives
    A job that is there to move files.

References
    Amazon SageMaker Debugger: IOBottleneck
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-io-stalls", "A job waits for files")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
