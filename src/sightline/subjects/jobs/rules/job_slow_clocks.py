"""GPUs of a job were held at low clocks while they computed.

Symptom
    A GPU is as busy as before, and the program is slower: since some hour, or on one node.

Why it hurts
    A kernel that computes takes longer by what the clock is lower, and the other GPUs wait for it.

Evidence
    The SM clock of each GPU in the samples in which it was busy, against the highest (its 95th
    percentile) of all GPUs of the job.

Threshold
    Below 85 % of the highest for 10 % of the time that a GPU was busy (ours: sustained clocks lie
    some 10 % below the highest of them).

Fix
    Ask why on the node (heat, a power limit, a power brake), and tell the operators.

False positives
    Jobs on GPUs of several kinds; clocks that somebody set on purpose for a part of a job. Clocks
    that are low on all GPUs from the first sample to the last are not found: the job itself has
    nothing to compare them with.

References
    NVIDIA, nvidia-smi: clocks event reasons
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-slow-clocks", "GPUs of a job were held at low clocks")


def check(run: Run) -> Iterator[Finding]:
    """One finding for all jobs of which it was found, or why no job could be judged."""
    yield from report_jobs(run, RULE)
