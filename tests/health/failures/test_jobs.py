"""Incidents of nodes against the jobs that ran there."""

from __future__ import annotations

import json
from pathlib import Path

from sightline.health.failures.causes import Cause
from sightline.health.failures.incidents import Incident
from sightline.health.failures.jobs import Job, match_jobs
from support.command import sightline

S, HOUR = 10**9, 3600 * 10**9
GPU = Cause("Faulty GPU", "GPU")


def make_job(number: str, state: str, end: int | None, *nodes: str) -> Job:
    return Job(number, state, HOUR, end, 16, frozenset(nodes))


def test_jobs_that_ended_went_on_and_have_no_reason() -> None:
    ended = make_job("1", "node_fail", 2 * HOUR, "node1", "node2")
    went_on = make_job("2", "completed", 9 * HOUR, "node3")
    alone = make_job("3", "node_fail", 2 * HOUR, "node4")
    before = make_job("4", "failed", 2 * HOUR, "node5")
    incidents = [
        Incident(GPU, "node2.log", 2 * HOUR - 5 * S),
        Incident(GPU, "NODE3.site.org", 3 * HOUR),
        Incident(GPU, "node5", HOUR - 1),  # before it began
        Incident(GPU, "node1"),  # without a time
    ]
    found = match_jobs([ended, went_on, alone, before], incidents)
    assert [(one.job.job_id, one.is_ended) for one in found.struck] == [("1", True), ("2", False)]
    assert found.struck[0].lost_gpu_hours == 16 * (HOUR - 5 * S) / HOUR
    assert found.struck[1].lost_gpu_hours is None
    assert [job.job_id for job in found.unexplained] == ["3"]
    assert found.elsewhere == incidents[2:]


def test_an_error_long_after_an_incident_is_not_its() -> None:
    job = make_job("1", "failed", 9 * HOUR, "node1")
    assert not match_jobs([job], [Incident(GPU, "node1", 2 * HOUR)]).struck[0].is_ended
    running = make_job("2", "running", None, "node1")
    assert not match_jobs([running], [Incident(GPU, "node1", 2 * HOUR)]).struck[0].is_ended


SACCT = """\
JobID|JobIDRaw|Cluster|User|State|ExitCode|Submit|Start|End|Elapsed|NNodes|NodeList|AllocTRES
4711|4711|c|a|NODE_FAIL|1:0|2026-03-01T08:00:00|2026-03-01T09:00:00|2026-03-01T10:00:05|01:00:05|2|\
node[1-2]|gres/gpu=16
4712|4712|c|b|COMPLETED|0:0|2026-03-01T08:00:00|2026-03-01T09:00:00|2026-03-01T12:00:00|03:00:00|1|\
node3|gres/gpu=8
4713|4713|c|b|NODE_FAIL|0:0|2026-03-01T08:00:00|2026-03-01T09:00:00|2026-03-01T12:00:00|03:00:00|1|\
node4|gres/gpu=8
""".replace("|\\\n", "|")


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(SACCT)
    listed = tmp_path / "list.csv"
    listed.write_text("component,category,time,node\nFaulty GPU,GPU,2026-03-01T10:00:00Z,node2\n")
    words = ("failures", "--incidents", listed, "--gpus", "32", "--over", "1d", "--jobs")
    said = sightline(*words, tmp_path / "sacct.txt").out
    assert "1 job ended by a failure of a node" in said
    assert "at most 16.0 GPU hours" in said and "says why: 4713." in said
    assert max(map(len, said.splitlines())) <= 80
    told = json.loads(sightline(*words, tmp_path / "sacct.txt", "--json").out)["jobs"]
    assert told["struck"][0]["job_id"] == "4711" and told["struck"][0]["lost_gpu_hours"] == 16.0
    assert told["unexplained"] == ["4713"] and told["incidents_without_a_job"] == 0
    refused = sightline(*words, listed)
    assert refused.code == 2
