"""Steps of a job: who costs which of them, and who is late only now and then."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.fleet.job import compose_job
from sightline.fleet.read import reduce_recordings
from sightline.fleet.steps import FOUND, MARKED, find_step_ends
from sightline.fleet.stragglers import HOST, find_stragglers
from support.jobs import collective
from support.traces import kernel, step, write


def job_of(folder: Path, late: dict[int, int], *, marked: bool):
    """Four ranks, eight steps of two collectives; who is late by 60 µs in which step."""
    for rank in range(4):
        events = []
        for number in range(8):
            at, mine = 400 * number, 60 if late.get(number) == rank else 0
            most = 60 if number in late else 0
            if marked:
                events.append(step(number, at, 400))
            events += [
                kernel("gemm", at, 50),
                collective(at + 50 + mine, 100 + most - mine, members=range(4)),
                kernel("gemm", at + 220, 50),
                collective(at + 270, 100, members=range(4), op="allgather"),
            ]
        info = {"rank": rank, "world_size": 4}
        write(folder, events, f"rank{rank}.json", distributedInfo=info)
    return compose_job(reduce_recordings([str(folder)]).ranks)


@pytest.mark.parametrize("marked", [True, False])
def test_steps_by_marks_or_order(tmp_path: Path, marked: bool) -> None:
    job = job_of(tmp_path, {2: 1, 5: 3}, marked=marked)
    ends, how = find_step_ends(job)
    assert how == (MARKED if marked else FOUND)
    shown = job.rows[ends].get_column("end_ns") - job.begin_ns
    assert shown.to_list() == [400_000 * n + 370_000 for n in range(8)]


def test_each_step_has_its_straggler(tmp_path: Path) -> None:
    verdict = find_stragglers(job_of(tmp_path, {2: 1, 5: 3}, marked=False))
    hit = verdict.steps.filter(verdict.steps["gain_ns"] > 0)
    shown = hit.select("step", "cause", "ranks", "gain_ns", "duration_ns", "ideal_ns").rows()
    assert shown == [
        (2, HOST, [1], 60_000, 400_000, 340_000),
        (5, HOST, [3], 60_000, 400_000, 340_000),
    ]
    told = verdict.stragglers.select("ranks", "steps", "is_persistent").rows()
    assert sorted(told) == [([1], 1, False), ([3], 1, False)]
