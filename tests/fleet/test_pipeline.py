"""Pipelines: the schedule is told from what stages send, and bubbles cost what a replay says.

The sweep over many jobs is `python benchmarks/many_ranks.py pipelines`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.fleet.job import Job, compose_job, replay_job
from sightline.fleet.read import reduce_recordings
from sightline.fleet.stragglers import BUBBLE, HOST, SLOW_STAGE, find_stragglers
from support.jobs import collective
from support.pipelines import (
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    ZERO_BUBBLE,
    Pipeline,
    write_pipeline,
)
from support.traces import kernel, write


def played(folder: Path, of: Pipeline) -> Job:
    list(write_pipeline(of, folder))
    return compose_job(reduce_recordings([str(folder)]).ranks)


@pytest.mark.parametrize(
    ("schedule", "chunks", "least"),
    [
        (GPIPE, 1, 3 / 11),
        (ONE_F_ONE_B, 1, 3 / 11),
        (INTERLEAVED, 2, 3 / 19),
        (ZERO_BUBBLE, 1, None),
    ],
)
def test_schedule_and_bubble(tmp_path: Path, schedule: str, chunks: int, least: float) -> None:
    of = Pipeline(4, 2, 8, schedule, chunks=chunks)
    job = played(tmp_path, of)
    pipeline = job.pipeline
    assert (pipeline.stages, pipeline.schedule) == (4, schedule)
    assert (pipeline.micro_batches, pipeline.chunks) == (8, chunks)
    assert pipeline.least_pct == (least and pytest.approx(100 * least))
    stages = dict(pipeline.rows.select("rank", "stage").iter_rows())
    assert stages == {rank: rank // 2 for rank in range(8)}
    assert replay_job(job, [()]) == [of.length_ns()]
    first = find_stragglers(job).stragglers.row(0, named=True)
    assert (first["cause"], first["ranks"]) == (BUBBLE, list(range(8)))
    assert first["gain_ns"] == pytest.approx(of.measure_cost(waits=False), rel=0.05)


def test_a_slow_stage_on_clocks_that_are_apart(tmp_path: Path) -> None:
    of = Pipeline(4, 2, 4, INTERLEAVED, steps=8, chunks=2, slow_stage=1, slow=0.6, offset_ns=5e7)
    verdict = find_stragglers(played(tmp_path, of))
    first = verdict.stragglers.row(0, named=True)
    assert (first["cause"], first["ranks"], first["steps"]) == (SLOW_STAGE, [2, 3], 8)
    assert first["gain_ns"] == pytest.approx(of.measure_cost(slow_stage=None), rel=0.05)
    costs = verdict.stages.sort("gain_ns").get_column("stage")
    assert costs[-1] == 1


def test_a_late_host_in_a_pipeline(tmp_path: Path) -> None:
    of = Pipeline(2, 4, 4, ONE_F_ONE_B, steps=4, late_rank=5, late_ns=2_000_000)
    first = find_stragglers(played(tmp_path, of)).stragglers.row(0, named=True)
    assert (first["cause"], first["ranks"]) == (HOST, [5])
    assert first["gain_ns"] == pytest.approx(of.measure_cost(late_rank=None), rel=0.05)


def test_two_stages_by_hand(tmp_path: Path) -> None:
    """Stage 1 waits 90 µs for its first micro-batch, and stage 0 60 µs for the gradient."""
    told = {"members": (0, 1)}
    first = [
        kernel("forward", 0, 100),
        collective(100, 10, op="send", **told, **{"Dst Rank": 1}),
        collective(110, 70, op="recv", **told, **{"Src Rank": 1}),
        kernel("backward", 180, 50),
    ]
    second = [
        kernel("load", 0, 10),
        collective(10, 100, op="recv", **told, **{"Src Rank": 0}),
        kernel("both", 110, 60),
        collective(170, 10, op="send", **told, **{"Dst Rank": 0}),
    ]
    for rank, events in enumerate((first, second)):
        info = {"rank": rank, "world_size": 2}
        write(tmp_path, events, f"rank{rank}.json", distributedInfo=info)
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    assert job.pipeline.rows.sort("rank").rows() == [(0, 0, 0, 60_000), (1, 1, 0, 90_000)]
    row = find_stragglers(job).stragglers.row(0, named=True)
    assert (row["cause"], row["gain_ns"]) == (BUBBLE, 230_000 - 170_000)


def test_an_exchange_of_all_is_no_pipeline(tmp_path: Path) -> None:
    """Each of four ranks sends to the next one, as a ring of attention blocks does."""
    for rank in range(4):
        ahead, behind = (rank + 1) % 4, (rank - 1) % 4
        events = [kernel("attention", 0, 50)]
        for at in (50, 150, 250):
            events += [
                collective(at, 20, op="send", members=range(4), **{"Dst Rank": ahead}, stream=8),
                collective(at, 20, op="recv", members=range(4), **{"Src Rank": behind}, stream=9),
                kernel("attention", at + 30, 50),
            ]
        info = {"rank": rank, "world_size": 4}
        write(tmp_path, events, f"rank{rank}.json", distributedInfo=info)
    job = compose_job(reduce_recordings([str(tmp_path)]).ranks)
    assert job.unmatched == 0
    assert job.pipeline is None
