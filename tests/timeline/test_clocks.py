"""Clocks of ranks, recovered from the ends of collectives of a made-up job."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sightline.timeline import clocks
from sightline.timeline.clocks import Fit, fit_clocks

SPAN = 2_000_000_000
EPOCH = 1_700_000_000_000_000_000


def job(
    ranks: int,
    count: int,
    *,
    seed: int,
    group: int | None = None,
    drift: float = 20e-6,
    slipped: int = 0,
) -> tuple[pl.DataFrame, np.ndarray, np.ndarray]:
    """Members of collectives, and each rank's offset (ns) and drift: local = true + both.

    In groups of so many ranks by turns with groups across them. Rank 0 lacks the first `slipped`
    collectives, and those behind it are paired with the wrong ones.
    """
    dice = np.random.default_rng(seed)
    offset = dice.uniform(-5e7, 5e7, ranks)
    drifts = dice.uniform(-drift, drift, ranks)
    rows = []
    for nth in range(count):
        true = SPAN * (nth + 1) // count
        whole = [np.arange(ranks)]
        inner = [np.arange(i, i + group) for i in range(0, ranks, group)] if group else whole
        across = [np.arange(i, ranks, group) for i in range(group)] if group else whole
        for number, members in enumerate(inner if nth % 2 else across):
            for rank in members:
                end = true + dice.exponential(3_000)
                start = true - 100_000 - dice.exponential(300_000)
                of = nth - slipped if rank == 0 else nth
                local = [t + offset[rank] + drifts[rank] * t for t in (start, end)]
                name = f"{nth % 2}.{number}"
                rows.append((int(rank), of * 1000 + number, name, name, *map(int, local)))
    schema = ["rank", "meeting", "group", "members", "start_ns", "end_ns"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    moved = frame.with_columns(pl.col("start_ns", "end_ns") + EPOCH)
    return moved.filter(pl.col("meeting") >= 0), offset, drifts


def error_ns(fit: Fit, offset: np.ndarray, drift: np.ndarray) -> np.ndarray:
    """How far each rank's time is off the first rank's at the start, middle and end."""
    shift, rate, at = (fit.clocks[c].to_numpy() for c in ("shift_ns", "drift", "at_ns"))
    found = []
    for true in (0, SPAN / 2, SPAN):
        away = offset + drift * true
        moved = shift + rate * (true + away - (at - EPOCH))
        found.append(np.abs(moved + away - away[0]))
    return np.array(found)


@pytest.mark.parametrize("group", [None, 4])
def test_offsets_and_drifts_are_recovered_within_the_stated_uncertainty(group: int | None) -> None:
    inside = []
    for seed in range(5):
        anchors, offset, drift = job(8, 60, seed=seed, group=group)
        fit = fit_clocks(anchors)
        assert fit is not None and not fit.is_contradictory and fit.is_apart()
        inside.append(error_ns(fit, offset, drift) <= fit.clocks["uncertainty_ns"].to_numpy())
    assert np.mean(inside) >= 0.95
    assert fit.clocks["uncertainty_ns"].max() < 20_000


def test_a_short_recording_has_no_drift() -> None:
    anchors, *_ = job(4, 20, seed=1, drift=0.0)
    assert fit_clocks(anchors).clocks["drift"].to_list() == [0.0] * 4


def test_a_contradictory_pairing_is_refused() -> None:
    """Rank 0's k-th is paired with the others' next: no clock makes that fit uneven steps."""
    anchors, *_ = job(4, 60, seed=3, slipped=1)
    nth = pl.col("meeting") // 1000 + (pl.col("rank") == 0)  # as it was
    uneven = anchors.with_columns(pl.col("start_ns", "end_ns") + nth * 7919 % 13 * 5_000_000)
    fit = fit_clocks(uneven)
    assert fit is not None and fit.is_contradictory


def test_ranks_without_a_common_collective_are_not_compared() -> None:
    one, *_ = job(2, 20, seed=1)
    two = one.with_columns(pl.col("rank") + 2, pl.col("meeting") + 10**6)
    assert fit_clocks(pl.concat([one, two])).clocks["component"].to_list() == [0, 0, 1, 1]


def test_too_few_collectives_say_nothing() -> None:
    anchors, *_ = job(2, 7, seed=1)
    assert fit_clocks(anchors) is None


def chain(ranks: int, count: int) -> pl.DataFrame:
    """Collectives of each two neighbours: what is known of the last rank came by all others."""
    dice = np.random.default_rng(11)
    offset, drift = dice.uniform(-5e7, 5e7, ranks), dice.uniform(-2e-5, 2e-5, ranks)
    rows = []
    for nth in range(count):
        for first in range(ranks - 1):
            true = SPAN * (nth + 1) // count
            for rank in (first, first + 1):
                end = true + dice.exponential(3_000)
                local = [t + offset[rank] + drift[rank] * t for t in (end - 200_000, end)]
                moved = (EPOCH + int(t) for t in local)
                rows.append((rank, nth * 1000 + first, f"{first}", f"{first}", *moved))
    schema = ["rank", "meeting", "group", "members", "start_ns", "end_ns"]
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.mark.parametrize("anchors", [job(64, 40, seed=4, group=8)[0], chain(40, 20)])
def test_many_ranks_have_the_clocks_of_few(
    anchors: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solved without the matrix, they are the same to a nanosecond at the ends of the recording."""
    few = fit_clocks(anchors)
    monkeypatch.setattr(clocks, "MOST_DENSE", 0)
    many = fit_clocks(anchors)
    assert few is not None
    assert many is not None
    assert few.clocks.get_column("drift").abs().max() > 1e-6  # type: ignore[operator]
    for name, most in (("shift_ns", 1), ("uncertainty_ns", 1), ("drift", 1 / SPAN)):
        apart = (few.clocks.get_column(name) - many.clocks.get_column(name)).abs().max()
        assert apart <= most, name  # type: ignore[operator]
    assert (few.anchors, few.impossible) == (many.anchors, many.impossible)
