"""The course of a job's metrics as letters."""

from __future__ import annotations

import numpy as np

from sightline.subjects.jobs.job import GPU, Job, make_use
from sightline.views.jobs.course import write_course


def make_job(values: list[list[float]]) -> Job:
    places = tuple(("n1", str(n)) for n in range(len(values)))
    return Job({}, (), {("acc_utilization", GPU): make_use(places, np.array(values), 60.0)})


def test_half_of_the_time_busy() -> None:
    text = write_course(make_job([[80.0] * 50 + [0.0] * 50, [40.0] * 50 + [0.0] * 50]))
    assert text.splitlines()[1] == f"  acc_utilization {'█' * 25}{' ' * 25}  up to 60 %"


def test_what_was_not_sampled_is_a_dot() -> None:
    text = write_course(make_job([[100.0, float("nan"), 50.0]]))
    assert text.splitlines()[1].startswith("  acc_utilization █·▄")


def test_without_series() -> None:
    assert write_course(Job({})) == ""
