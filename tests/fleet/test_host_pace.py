"""Hosts that launch while others are waited for: nothing is gained that they need themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from sightline.fleet.job import compose_job
from sightline.fleet.read import reduce_recordings
from sightline.fleet.stragglers import Verdict, find_stragglers
from support.jobs import collective
from support.traces import launched, write

RANKS, COLLECTIVES, PACE, TRANSFER = 8, 60, 200, 20
Stalls = Mapping[tuple[int, int], int]  # by rank and collective, µs


def play(stalls: Stalls) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """When each rank's host asks for each all-reduce, when it starts, and when all end, µs."""
    asks = [0] * RANKS
    asked, starts, ends = [], [], [0]
    for k in range(COLLECTIVES):
        asks = [at + PACE + stalls.get((rank, k), 0) for rank, at in enumerate(asks)]
        asked.append(asks)
        starts.append([max(at + 5, ends[-1]) for at in asks])
        ends.append(max(starts[-1]) + TRANSFER)
    return asked, starts, ends[1:]


def judge(folder: Path, stalls: Stalls) -> Verdict:
    asked, starts, ends = play(stalls)
    for rank in range(RANKS):
        events = []
        for ask, at, end in zip(asked, starts, ends, strict=True):
            done = collective(at[rank], end - at[rank], members=range(RANKS))
            events += launched(ask[rank], done, dur=4)
        told = {"rank": rank, "world_size": RANKS}
        write(folder, events, f"rank{rank}.json", distributedInfo=told)
    return find_stragglers(compose_job(reduce_recordings([str(folder)]).ranks))


def measure_length(stalls: Stalls) -> int:
    _, starts, ends = play(stalls)
    return 1_000 * (ends[-1] - min(starts[0]))


def draw_stalls(seed: int) -> dict[tuple[int, int], int]:
    """Every host stalls as often, each elsewhere."""
    dice = Random(seed)
    return {
        (rank, k): dice.randint(500, 1_500)
        for rank in range(RANKS)
        for k in dice.sample(range(COLLECTIVES), 8)
    }


@pytest.mark.parametrize("seed", range(3))
def test_stalls_that_every_host_has_are_nobodys_cost(tmp_path: Path, seed: int) -> None:
    stalls = draw_stalls(seed)
    verdict = judge(tmp_path, stalls)
    assert verdict.length_ns == measure_length(stalls)
    usual = sorted(sum(n for (r, _), n in stalls.items() if r == rank) for rank in range(RANKS))
    needs = 1_000 * (PACE * (COLLECTIVES - 1) + usual[(RANKS - 1) // 2])
    assert verdict.ideal_ns == pytest.approx(needs, rel=0.1)
    for row in verdict.stragglers.iter_rows(named=True):
        left = {at: n for at, n in stalls.items() if at[0] not in row["ranks"]}
        assert row["gain_ns"] <= measure_length(stalls) - measure_length(left)


def test_a_host_that_stalls_more_than_the_others_is(tmp_path: Path) -> None:
    stalls = draw_stalls(5)
    more = stalls | {(3, k): 2_000 for k in range(5, COLLECTIVES, 5)}
    verdict = judge(tmp_path, more)
    first = verdict.stragglers.row(0, named=True)
    assert (first["cause"], first["ranks"]) == ("host late", [3])
    cost = measure_length(more) - measure_length(stalls)
    assert first["gain_ns"] == pytest.approx(cost, rel=0.1)
