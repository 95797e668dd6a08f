"""Nodes of a job send nothing to each other.

Symptom
    Several nodes, and nothing on the network.

Why it hurts
    What could be several small jobs waits for a large one's turn; or the program does not know
    of its nodes.

Evidence
    The largest mean rate of any node (ib_recv, ib_xmit, net_bw, eth_recv, eth_xmit).

Threshold
    1 MB/s (ours: daemons and file systems send that much).

Fix
    Separate jobs, or connect the nodes by the launcher.

False positives
    Parameter studies in one job, on purpose.

References
    NHR PathoJobs
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.jobs.reporting import report_jobs

RULE = Rule("job-idle-network", "Nodes of a job send nothing to each other")


def check(run: Run) -> Iterator[Finding]:
    """One finding for jobs with GPUs, one for those without, or why no job could be judged."""
    yield from report_jobs(run, RULE)
