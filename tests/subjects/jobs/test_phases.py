"""Phases of a job, of levels that are known."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.core.job_metrics import METRICS
from sightline.subjects.jobs.phases import list_phases
from subjects.jobs.test_judges import LOAD, USE, course, make_job
from synth_jobs import simulate

NOISE = np.random.default_rng(62).normal(0, 2, 60)


def level(*parts: tuple[int, float]) -> list[float]:
    return np.clip(np.array(course(*parts)) + NOISE, 0, 100).tolist()


@pytest.mark.parametrize(
    "parts",
    [
        [(10, 15.0), (50, 90.0)],  # set-up, then training
        [(30, 90.0), (30, 5.0)],
        [(8, 20.0), (40, 90.0), (12, 40.0)],
    ],
)
def test_a_phase_begins_where_the_level_changes(parts):
    found = list_phases(make_job({USE: [level(*parts), level(*parts)]}, gpus=2))
    assert [round(p.level, -1) for p in found] == [pytest.approx(want, abs=10) for _, want in parts]
    ends = np.cumsum([minutes for minutes, _ in parts]) * 60.0
    assert [p.end_s for p in found] == pytest.approx(ends.tolist(), abs=60)
    assert [p.start_s for p in found] == [0.0, *[p.end_s for p in found[:-1]]]
    assert {p.metric for p in found} == {"acc_utilization"}


def test_one_level_is_no_phases():
    assert list_phases(make_job({USE: [level((60, 80.0))]}, gpus=1)) == []
    assert list_phases(make_job({USE: [level((30, 80.0), (30, 86.0))]}, gpus=1)) == []
    assert list_phases(make_job({}, gpus=1)) == []
    assert list_phases(make_job({USE: [90]}, gpus=1, duration_ns=599 * 10**9)) == []


@pytest.mark.parametrize(
    "values",
    [[-5.0] * 30 + [-90.0] * 30, [1e200] * 30 + [1.0] * 30, [float("inf")] * 30 + [1.0] * 30],
)
def test_what_an_archive_may_say(values: list[float]):
    assert list_phases(make_job({USE: [values]}, gpus=1)) == []


def test_processors_where_there_is_no_gpu():
    found = list_phases(make_job({LOAD: [course((20, 1.0), (40, 9.0))] * 2}))
    assert [(p.metric, round(p.level)) for p in found] == [("cpu_load", 1), ("cpu_load", 9)]
    assert found[0].metric in METRICS


def test_healthy_jobs_have_one_level_or_a_start():
    """Of simulated ones: noise and checkpoints are no phases."""
    healthy = [job for job, rule in map(simulate, range(150)) if rule is None]
    late = [job for job in healthy if any(p.start_s > 0.1 * job.seconds for p in list_phases(job))]
    assert len(late) <= 0.05 * len(healthy) + 1
