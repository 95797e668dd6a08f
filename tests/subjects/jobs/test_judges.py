"""Each rule about jobs: where it speaks, just below, and where it cannot look, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightline.subjects.jobs.job import GPU, NODE, Job, make_use
from sightline.subjects.jobs.judging import judge_job
from sightline.subjects.jobs.verdict import Verdict, price_problem

GB = 1e9
HOUR_NS = 3600 * 10**9
# An hour on two nodes of their own with 10 processors each, and no GPU.
ROW: dict[str, Any] = {
    "rank": 0, "recording_id": 0, "job_row_id": 0, "job_id": "7", "raw_job_id": 7, "cluster": "c",
    "sub_cluster": None, "partition": None, "user": "ada", "project": None, "name": None,
    "application": None, "state": "completed", "exit_code": None, "submit_ns": None,
    "start_ns": 0, "end_ns": HOUR_NS, "duration_ns": HOUR_NS, "limit_ns": 2 * HOUR_NS, "nodes": 2,
    "cpus": 20, "gpus": None, "gpu_type": None, "sharing": "none", "memory_bytes": None,
    "used_memory_bytes": None, "cpu_time_ns": None, "energy_j": None, "summary": None,
}  # fmt: skip


def make_job(uses: dict[tuple[str, str], list[Any]] | None = None, **facts: Any) -> Job:
    """A job with metrics: of each node or GPU a level, or the values of 60 minutes."""
    made = {}
    for (metric, scope), rows in (uses or {}).items():
        hosts = [("n1", None), ("n2", None), ("n3", None), ("n4", None)]
        gpus = [(f"n{n // 2 + 1}", str(n % 2)) for n in range(8)]
        values = np.array([np.broadcast_to(np.array(row, dtype=float), (60,)) for row in rows])
        places = tuple((gpus if scope == GPU else hosts)[: len(rows)])
        made[metric, scope] = make_use(places, values, 60.0)
    return Job({**ROW, **facts}, (), made, {})


def ask(job: Job, rule: str) -> Verdict | None:
    return next((v for v in judge_job(job) if v.rule == rule), None)


def course(*parts: tuple[int, float]) -> list[float]:
    """Minutes at a level, one part after the other."""
    return [level for minutes, level in parts for _ in range(minutes)]


IDLE, LITTLE, UNEQUAL = "job-idle-gpus", "job-underused-gpus", "job-unequal-gpus"
SLOW, CLOCKS = "job-slow-clocks", ("acc_clock", GPU)
USE, POWER = ("acc_utilization", GPU), ("acc_power", GPU)
LOAD, READ, WRITE = ("cpu_load", NODE), ("file_read", NODE), ("file_write", NODE)
MEMORY, CLOCK, FLOPS = ("mem_used", NODE), ("clock", NODE), ("flops_any", NODE)
SENT, RECEIVED = ("ib_xmit", NODE), ("ib_recv", NODE)
RAMP = list(np.linspace(50 * GB, 100 * GB, 60))
READING = course(*[(5, 9.0), (1, 0.5)] * 10)  # a sixth of the minutes
TRAFFIC = course(*[(5, 1e6), (1, 5e8)] * 10)

SPEAKS = [
    # rule, metrics, facts, share of what it was given, words
    (IDLE, {USE: [90, 0, 90, 0.5]}, {"gpus": 4}, 0.5, "2 of 4 GPUs did nothing"),
    (IDLE, {USE: [0, 0]}, {"gpus": 2}, 1.0, "Both GPUs did nothing"),
    (LITTLE, {USE: [10, 30]}, {"gpus": 2}, 0.8, "busy for 20 % of the time"),
    (LITTLE, {USE: [20, 0]}, {"gpus": 2}, 0.4, "busy for 20 % of the time"),
    (UNEQUAL, {USE: [100, 50]}, {"gpus": 2}, 0.25, "from 50 to 100 % busy"),
    (
        SLOW,
        {USE: [90, 90], CLOCKS: [course((40, 2e9), (20, 1e9)), 2e9]},
        {"gpus": 2},
        1 / 12,  # a third of the time at half of the clock, on one of two
        "1 GPU of 2 ran at 1,000 instead of 2,000 MHz for 33 %",
    ),
    (
        "job-hang",
        {USE: [course((30, 90), (30, 0))]},
        {"gpus": 1},
        0.5,
        "30 minutes before it ended",
    ),
    (
        "job-hang",
        {USE: [course((30, 90), (30, 100))], POWER: [course((30, 400), (30, 200))]},
        {"gpus": 1, "state": "running"},
        0.5,
        "It hangs now",
    ),
    ("job-hang", {LOAD: [course((45, 10), (15, 0.1))] * 2}, {}, 0.25, "processors idle"),
    ("job-serial", {LOAD: [1, 0]}, {}, 0.95, "it used 1.0 of 20 cores"),
    ("job-serial", {}, {"cpu_time_ns": HOUR_NS}, 0.95, "it used 1.0 of 20 cores"),
    ("job-low-cpu-load", {LOAD: [4, 4]}, {}, 0.6, "busy for 40 % of the time"),
    ("job-excessive-load", {LOAD: [13, 10]}, {}, 0.0, "13 threads want to run on the 10"),
    ("job-unequal-load", {LOAD: [10, 7]}, {}, 0.15, "nodes have unequal loads: from 7.0 to 10.0"),
    (
        "job-slow-node",
        {CLOCK: [3e9, 3e9, 2.1e9, 3e9], LOAD: [10] * 4},
        {"nodes": 4, "cpus": 40},
        0.3,
        "n3 is slower than the others: clock is 70 %",
    ),
    ("job-io-stalls", {LOAD: [READING] * 2, READ: [TRAFFIC] * 2}, {}, 1 / 6, "17 % of the time"),
    ("job-idle-network", {SENT: [1e4, 2e4], RECEIVED: [1e4, 2e4]}, {}, 0.0, "2 nodes send nothing"),
    ("job-growing-memory", {MEMORY: [RAMP]}, {"nodes": 1}, 0.0, "to 100.0 GB"),
    (
        "job-overasked-memory",
        {MEMORY: [5 * GB, 5 * GB]},
        {"memory_bytes": 100 * 10**9, "sharing": None},
        0.0,
        "It used 10.00 GB of 100.0 GB",
    ),
    ("job-overasked-time", {}, {"limit_ns": 10 * HOUR_NS}, 0.0, "60 minutes of 10.0 hours"),
]


@pytest.mark.parametrize(("rule", "uses", "facts", "lost", "words"), SPEAKS)
def test_speaks(rule: str, uses: Any, facts: Any, lost: float, words: str) -> None:
    verdict = ask(make_job(uses, **facts), rule)
    assert verdict is not None
    assert verdict.holds is True
    assert words in verdict.text
    assert verdict.lost == pytest.approx(lost, abs=0.01)
    assert verdict.fix


@pytest.mark.parametrize(
    ("rule", "uses", "facts"),
    [
        (IDLE, {USE: [90, 2]}, {"gpus": 2}),
        (LITTLE, {USE: [25, 26]}, {"gpus": 2}),
        (UNEQUAL, {USE: [100, 65]}, {"gpus": 2}),
        (SLOW, {USE: [90], CLOCKS: [course((40, 2e9), (20, 1.71e9))]}, {"gpus": 1}),
        (SLOW, {USE: [90], CLOCKS: [course((55, 2e9), (5, 1e9))]}, {"gpus": 1}),
        # A GPU that rests lowers its clock by itself.
        (
            SLOW,
            {USE: [course((40, 90), (20, 0))], CLOCKS: [course((40, 2e9), (20, 3e8))]},
            {"gpus": 1},
        ),
        ("job-hang", {USE: [course((51, 90), (9, 0))]}, {"gpus": 1}),
        ("job-hang", {USE: [course((30, 90), (20, 0), (10, 50))]}, {"gpus": 1}),
        ("job-serial", {LOAD: [1.2, 0]}, {}),
        ("job-low-cpu-load", {LOAD: [6.6, 6.6]}, {}),
        ("job-excessive-load", {LOAD: [11.9, 11.9]}, {}),
        ("job-unequal-load", {LOAD: [10, 8.2]}, {}),
        ("job-slow-node", {CLOCK: [3e9, 3e9, 2.5e9]}, {"nodes": 3, "cpus": 30}),
        # It computes less because it has less to do: an unequal load, and no slow node.
        ("job-slow-node", {FLOPS: [9, 9, 3], LOAD: [10, 10, 3]}, {"nodes": 3, "cpus": 30}),
        ("job-io-stalls", {LOAD: [READING] * 2, READ: [course((60, 1e6))] * 2}, {}),
        ("job-idle-network", {SENT: [1.1e6, 1e4]}, {}),
        ("job-growing-memory", {MEMORY: [course((5, GB), (55, 50 * GB))]}, {"nodes": 1}),
        (
            "job-overasked-memory",
            {MEMORY: [36 * GB]},
            {"memory_bytes": 10**11, "sharing": None, "nodes": 1},
        ),
        ("job-overasked-time", {}, {"limit_ns": 5 * HOUR_NS}),
    ],
)
def test_is_silent_just_below(rule: str, uses: Any, facts: Any) -> None:
    verdict = ask(make_job(uses, **facts), rule)
    assert verdict is not None
    assert verdict.holds is False


@pytest.mark.parametrize(
    ("rule", "facts", "missing"),
    [
        (IDLE, {"gpus": 2}, "acc_utilization"),
        (LITTLE, {"gpus": 2}, "acc_utilization"),
        (UNEQUAL, {"gpus": 2}, "acc_utilization"),
        (SLOW, {"gpus": 2}, "acc_clock"),
        ("job-hang", {}, "work over time"),
        ("job-serial", {}, "cpu_load"),
        ("job-low-cpu-load", {}, "cpu_load"),
        ("job-excessive-load", {}, "cpu_load"),
        ("job-unequal-load", {}, "cpu_load"),
        ("job-slow-node", {"nodes": 3}, "clock"),
        ("job-io-stalls", {}, "file_read"),
        ("job-idle-network", {}, "ib_recv"),
        ("job-growing-memory", {}, "mem_used"),
        ("job-overasked-memory", {"sharing": None, "memory_bytes": 10**11}, "mem_used"),
        ("job-overasked-time", {"limit_ns": None}, "time it asked for"),
    ],
)
def test_says_what_is_missing(rule: str, facts: Any, missing: str) -> None:
    verdict = ask(make_job(**facts), rule)
    assert verdict is not None
    assert verdict.holds is None
    assert missing in verdict.text


def test_shared_nodes_say_nothing_of_the_job() -> None:
    job = make_job({LOAD: [2, 2]}, sharing="multi_user")
    for rule in ("job-low-cpu-load", "job-excessive-load", "job-unequal-load"):
        verdict = ask(job, rule)
        assert verdict is not None
        assert verdict.holds is None, rule


def test_half_of_the_threads_may_be_all_cores() -> None:
    """Of cores with two threads; where the peak of a node's load is known, nothing is in doubt."""
    job = make_job({LOAD: [5, 5]})
    verdict = ask(job, "job-low-cpu-load")
    assert verdict is not None
    assert verdict.holds is None
    assert "two threads" in verdict.text
    for peak, holds in ((10.0, True), (5.0, False)):
        known = ask(replace(job, limits={"cpu_load": {"peak": peak}}), "job-low-cpu-load")
        assert known is not None
        assert known.holds is holds


def test_short_and_pending_jobs_are_not_judged() -> None:
    assert list(judge_job(make_job({USE: [0]}, gpus=1, duration_ns=599 * 10**9))) == []
    assert list(judge_job(make_job(gpus=1, state="pending"))) == []


def test_what_a_problem_takes() -> None:
    """Two of four GPUs for an hour, at 60 and 80 W: 2 GPU hours, and no core hours."""
    job = make_job({USE: [90, 0, 90, 0], POWER: [400, 60, 400, 80]}, gpus=4)
    verdict = ask(job, IDLE)
    assert verdict is not None
    assert price_problem(job, verdict) == (2.0, 0.0)
    assert verdict.energy_j == 140 * 3600
    serial = ask(make_job(cpu_time_ns=HOUR_NS), "job-serial")
    assert serial is not None
    assert price_problem(make_job(), serial) == (0.0, 19.0)


def test_limits_that_a_job_exceeds_are_of_other_nodes() -> None:
    """As of a job in an archive whose cluster.json describes newer or older nodes."""
    from sightline.subjects.jobs.job import contradicts_limits

    limits = {"mem_bw": {"peak": 24e9}}
    assert contradicts_limits(Job(ROW, (), make_job({("mem_bw", NODE): [63e9]}).uses, limits))
    assert not contradicts_limits(Job(ROW, (), make_job({("mem_bw", NODE): [23e9]}).uses, limits))
