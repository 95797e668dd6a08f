"""Whole nanoseconds that sum: for any shares, and for any two recordings."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.compare.comparison import compare_samples
from sightline.compare.sample import take_sample
from sightline.compare.waterfall import apportion
from support.traces import Event, collective, copy, kernel, launched, op, opened, step


@given(st.lists(st.floats(0, 1e12, allow_nan=False), min_size=1, max_size=50))
def test_apportioned_shares_sum_and_stay_within_one(shares: list[float]) -> None:
    whole = apportion(pl.Series(shares, dtype=pl.Float64))
    assert int(whole.sum()) == round(sum(pl.Series(shares)))
    assert all(abs(n - share) < 1 for n, share in zip(whole, shares, strict=True))


def test_remainders_go_to_the_largest() -> None:
    assert apportion(pl.Series([1.5, 0.75, 0.75])).to_list() == [1, 1, 1]


def _events(dice: random.Random) -> list[Event]:
    events: list[Event] = [step(i, 100 * i, 100) for i in range(dice.randrange(6))]
    for i in range(dice.randrange(1, 50)):
        at, length, stream = dice.randrange(700), dice.randrange(40), dice.randrange(3)
        kind, name = dice.randrange(4), dice.choice(["f<1>", "f<2>", "ampere_g", "volta_g", "h"])
        if kind == 0:
            events.append(collective(at, length, stream=stream))
        elif kind == 1:
            events.append(copy("Memcpy HtoD (Pinned -> Device)", at, length, 8, stream=stream))
        else:
            called = 1000 * i
            events.append(op(dice.choice(["aten::a", "aten::b"]), called, 900))
            events += launched(called + 10, kernel(name, at, length, stream=stream))
    return events


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.campaign) for n in range(6, 100))]
)
def test_pairs_and_parts_sum_to_the_steps(tmp_path: Path, seed: int) -> None:
    """Of any two recordings: before, after and difference, over pairs and over parts."""
    dice = random.Random(seed)
    sides = [
        [
            take_sample(opened(tmp_path, _events(dice), f"{side}{run}.json"), "one")
            for run in range(dice.randrange(1, 4))
        ]
        for side in "ab"
    ]
    found = compare_samples(*sides)
    for column in ("before_ns", "after_ns", "delta_ns"):
        for rows in (found["pairs"], found["waterfall"]):
            assert sum(row[column] for row in rows) == found["step"][column]
    for side, name in zip(sides, ("before_ns", "after_ns"), strict=True):
        mean = sum(sample.step_ns for sample in side) / len(side)
        assert abs(found["step"][name] - mean) <= 0.51
