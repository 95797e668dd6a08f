"""How often a stall comes back: in steps where they are marked, else in time."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.timeline.periods import describe_period

STEPS = pl.DataFrame({"rank": [0] * 30, "start_ns": [1000 * i for i in range(30)]})
NO_STEPS = STEPS.clear()


def gaps(*stalls: tuple[int, int], rank: int = 0) -> pl.DataFrame:
    """Gaps of one device: start and length."""
    rows = [(rank, rank, start, start + length, length) for start, length in stalls]
    names = ("rank", "device_id", "start_ns", "end_ns", "duration_ns")
    return pl.DataFrame(rows, dict.fromkeys(names, pl.Int64), orient="row")


def test_every_eighth_step() -> None:
    """Steps 3, 11, 19 and 27 stall for 500; step 5 loses 20."""
    found = gaps((3100, 500), (5100, 20), (11_300, 480), (19_000, 520), (27_200, 500))
    assert describe_period(found, STEPS) == "in every 8th step"


def test_a_gap_belongs_to_the_step_in_which_it_ends() -> None:
    found = gaps((2900, 200), (5900, 200), (8900, 200))
    assert describe_period(found, STEPS) == "in every 3rd step"


@pytest.mark.parametrize(
    "stalls",
    [
        [(3100, 500), (11_100, 500)],
        [(3100, 500), (11_100, 500), (18_100, 500)],
        [(1000 * i + 100, 500) for i in range(30)],
        [(3100, 500), (11_100, 500), (19_100, 500), *((1000 * i, 100) for i in range(30))],
    ],
    ids=["two", "uneven", "each step", "not most of it"],
)
def test_no_period(stalls: list[tuple[int, int]]) -> None:
    assert describe_period(gaps(*stalls), STEPS) is None


def test_without_steps_by_time() -> None:
    at = (0, 1_010_000_000, 1_990_000_000, 3_000_000_000)
    assert describe_period(gaps(*((t, 5000) for t in at)), NO_STEPS) == "every 1.010 s"
    assert describe_period(gaps(*((t * t, 5000) for t in range(5))), NO_STEPS) is None


def test_the_device_that_loses_most_is_asked() -> None:
    found = pl.concat(
        [gaps((3100, 500), (11_100, 500), (19_100, 500)), gaps((0, 50), (70, 50), rank=1)]
    )
    assert describe_period(found, STEPS) == "in every 8th step"
