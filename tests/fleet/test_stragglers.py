"""Planted causes in simulated jobs: cause and rank first, cost within 5 %, clocks as stated.

The sweep over hundreds of jobs is `python benchmarks/many_ranks.py truth`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sightline.fleet.job import compose_job
from sightline.fleet.read import reduce_recordings
from sightline.fleet.stragglers import find_stragglers
from support.many_ranks import (
    CLOCK,
    EPOCH_NS,
    EXPERTS,
    HOST,
    LINK,
    Cause,
    Program,
    write_ranks,
)


def played(folder: Path, *causes: Cause, **told):
    program = Program(16, steps=10, causes=causes, offset_ns=50e6, drift_ppm=20.0, **told)
    list(write_ranks(program, folder))
    job = compose_job(reduce_recordings([str(folder)]).ranks)
    return program, job, find_stragglers(job)


@pytest.mark.parametrize(
    "cause",
    [Cause(HOST, 5, 4e5), Cause(CLOCK, 11, 0.3), Cause(EXPERTS, 2, 0.8), Cause(LINK, 9, 1.5)],
    ids=lambda c: c.kind,
)
def test_cause_rank_and_cost(tmp_path: Path, cause: Cause) -> None:
    program, _, verdict = played(tmp_path, cause, seed=7)
    first = verdict.stragglers.row(0, named=True)
    whose = list(range(8, 16)) if cause.kind == LINK else [cause.rank]
    assert (first["cause"], first["ranks"], first["is_persistent"]) == (cause.kind, whose, True)
    assert first["gain_ns"] == pytest.approx(program.measure_cost(cause), rel=0.05)
    assert verdict.stragglers.height == 1
    tokens = "its all-to-alls carry 1.80 times as many bytes as other ranks'"
    assert first["detail"] == (tokens if cause.kind == EXPERTS else None)
    assert first["gain_ns"] <= verdict.length_ns - verdict.ideal_ns


def test_what_limits_next(tmp_path: Path) -> None:
    causes = Cause(HOST, 5, 8e5), Cause(CLOCK, 12, 0.3)
    _, _, verdict = played(tmp_path, *causes, seed=3)
    first = verdict.stragglers.row(0, named=True)
    shown = ("cause", "ranks", "next_cause", "next_ranks")
    assert [first[c] for c in shown] == [HOST, [5], CLOCK, [12]]


def test_two_that_hide_each_other(tmp_path: Path) -> None:
    """Either gains next to nothing by itself; both are named, with what each would cost alone."""
    causes = Cause(HOST, 0, 2e5), Cause(CLOCK, 15, 0.28)
    program, _, verdict = played(tmp_path, *causes, seed=5, kernels=3)
    assert max(map(program.measure_cost, causes)) < 0.05 * verdict.length_ns
    found = {(r["cause"], *r["ranks"]): r for r in verdict.stragglers.iter_rows(named=True)}
    assert set(found) == {(HOST, 0), (CLOCK, 15)}
    whole = program.play([]).length_ns
    for cause in causes:
        alone = program.play([cause]).length_ns - whole
        assert found[cause.kind, cause.rank]["alone_ns"] == pytest.approx(alone, rel=0.1)


def test_a_job_without_stragglers(tmp_path: Path) -> None:
    _, _, verdict = played(tmp_path, seed=1)
    assert verdict.stragglers.is_empty()
    assert verdict.slowdown < 1.05


def test_clocks_are_within_the_stated_uncertainty(tmp_path: Path) -> None:
    program, job, _ = played(tmp_path, seed=2)
    offset, rate = program.clocks()
    clocks = job.fit.clocks
    shift, drift, at = (clocks[c].to_numpy() for c in ("shift_ns", "drift", "at_ns"))
    away = offset + rate * program.play().length_ns / 2
    moved = shift + drift * (program.play().length_ns / 2 + away - (at - EPOCH_NS))
    error = np.abs(moved + away - away[0])
    assert (error <= clocks["uncertainty_ns"].to_numpy()).mean() >= 0.95
    assert clocks["uncertainty_ns"].max() < 20_000
