"""Which jobs failures struck: incidents of nodes against the jobs that ran there.

A scheduler says that a job failed, a log that a GPU did: only both say which GPU ended which job,
and which jobs ended for a reason that no log has.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from sightline.core.model.run import Run
from sightline.health.failures.incidents import SPACING_NS, Incident

# Slurm's states of jobs that their nodes ended (squeue, JOB STATE CODES), and of those that ended
# with an error, which may be their own.
OF_NODES = ("node_fail", "boot_fail")
_ERRORS = (*OF_NODES, "failed", "cancelled", "requeued")


class Job(NamedTuple):
    """A job: its number, state, time, GPUs, and the nodes that it had."""

    job_id: str
    state: str
    start_ns: int
    end_ns: int | None
    gpus: int | None
    nodes: frozenset[str]


class Struck(NamedTuple):
    """A job and the incident on a node of its, and whether it ended there."""

    job: Job
    incident: Incident
    is_ended: bool

    @property
    def lost_gpu_hours(self) -> float | None:
        """What it had computed by then: all is lost where it wrote no checkpoint."""
        if not self.is_ended or self.job.gpus is None or self.incident.time_ns is None:
            return None
        return self.job.gpus * (self.incident.time_ns - self.job.start_ns) / 3.6e12


class Matched(NamedTuple):
    """Jobs that were struck, those that nodes ended for no known reason, and other incidents."""

    struck: list[Struck]
    unexplained: list[Job]
    elsewhere: list[Incident]


def list_jobs(run: Run) -> list[Job]:
    """The jobs of a scheduler's output that have begun."""
    hosts = run.table("job_nodes").group_by("job_row_id").agg("host")
    rows = (
        run.table("jobs")
        .filter(pl.col("start_ns").is_not_null())
        .join(hosts, on="job_row_id", how="left", maintain_order="left")
    )
    return [
        Job(
            row["job_id"],
            row["state"] or "",
            row["start_ns"],
            row["end_ns"],
            row["gpus"],
            frozenset(name_node(host) for host in row["host"] or ()),
        )
        for row in rows.iter_rows(named=True)
    ]


def name_node(name: str) -> str:
    """A host or the file of its log, by which both are the same: node1.log, node1.site.org."""
    return name.partition(".")[0].lower()


def match_jobs(jobs: Sequence[Job], incidents: Sequence[Incident]) -> Matched:
    """Each incident against the jobs that ran on its node then."""
    by_node: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: job.start_ns):
        for node in job.nodes:
            by_node.setdefault(node, []).append(job)
    nodes = {node: _NodeJobs.of(mine) for node, mine in by_node.items()}
    struck: list[Struck] = []
    elsewhere: list[Incident] = []
    for incident in incidents:
        mine = nodes.get(name_node(incident.node))
        found = list(_find_struck(mine, incident)) if mine else []
        struck += found
        if not found:
            elsewhere.append(incident)
    explained = {one.job for one in struck}
    unexplained = [job for job in jobs if job.state in OF_NODES and job not in explained]
    return Matched(struck, unexplained, elsewhere)


class _NodeJobs(NamedTuple):
    """The jobs of one node by their start, and the latest end of each and all before it."""

    jobs: list[Job]
    starts: list[int]
    latest_ends: list[float]

    @classmethod
    def of(cls, jobs: list[Job]) -> _NodeJobs:
        ends = (math.inf if job.end_ns is None else job.end_ns + SPACING_NS for job in jobs)
        return cls(jobs, [job.start_ns for job in jobs], list(itertools.accumulate(ends, max)))


def _find_struck(node: _NodeJobs, incident: Incident) -> Iterator[Struck]:
    """The jobs that ran then, by their start: none before the first that lasted so long."""
    at = incident.time_ns
    if at is None:
        return
    last = bisect.bisect_right(node.starts, at)
    first = bisect.bisect_left(node.latest_ends, at, hi=last)
    for job in node.jobs[first:last]:
        # A job's end may be written before the log's line, or minutes behind it.
        if job.end_ns is not None and job.end_ns + SPACING_NS < at:
            continue
        is_near = job.end_ns is not None and abs(job.end_ns - at) <= SPACING_NS
        yield Struck(job, incident, is_near and job.state in _ERRORS)
