"""Ranks by time, in rows that stay few."""

from __future__ import annotations

import pytest

from sightline.fleet.heat import list_excess, make_heat
from sightline.fleet.job import compose_job
from sightline.fleet.read import reduce_recordings
from support.many_ranks import CLOCK, Cause, Program, write_ranks


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("ranks")
    list(write_ranks(Program(16, steps=6, causes=(Cause(CLOCK, 13, 0.5),)), folder))
    return compose_job(reduce_recordings([str(folder)]).ranks)


def test_groups_and_those_named(job) -> None:
    heat = make_heat(job, rows=4, bins=10, alone=(13,))
    assert heat.ranks == [(0, 3), (4, 7), (8, 11), (12, 15), (13, 13)]
    sums = [sum(row) for row in heat.late]
    assert sums[3] >= sums[4] > 3 * max(sums[:3])
    assert {len(row) for row in heat.late} == {10}


def test_who_fits_stands_alone_once(job) -> None:
    assert make_heat(job, rows=16, bins=5, alone=(13,)).ranks == [(r, r) for r in range(16)]


def test_the_late_ranks_excess_is_the_largest(job) -> None:
    excess = list_excess(job)
    assert excess.sort("compute_ns").row(-1, named=True)["rank"] == 13
    assert excess.sort("waited_ns").row(0, named=True)["rank"] == 13
