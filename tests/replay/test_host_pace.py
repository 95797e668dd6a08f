"""How fast the host ran: what two recordings of one program tell of each other."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sightline.replay.host_pace import measure_paces

KINDS, COUNT = 30, 4_000


def _list_stretches(seed: int, slower: dict[int, float], kinds: int = 0) -> pl.DataFrame:
    """Stretches of two threads that do the same work, each at its pace; `kinds` shifts which."""
    noise = np.random.default_rng(seed)
    of = noise.integers(KINDS, size=2 * COUNT)
    thread = np.repeat([1, 2], COUNT)
    usual = 300.0 * (1 + of % 10)
    pace = np.array([slower[t] for t in thread])
    ns = usual * pace * (1 + noise.exponential(0.3, 2 * COUNT))
    return pl.DataFrame(
        {"thread": thread, "of": of + kinds, "next": of, "ns": ns.round().astype(int)}
    )


def _find_cores(paces: list[pl.DataFrame], sides: list[pl.DataFrame]) -> list[list[float]]:
    return [
        [side.hstack(pace).filter(pl.col("thread") == t)["core"][0] for t in (1, 2)]
        for side, pace in zip(sides, paces, strict=True)
    ]


def test_a_thread_that_is_slower_in_all_it_does_is_seen() -> None:
    sides = [_list_stretches(1, {1: 1.0, 2: 1.0}), _list_stretches(2, {1: 2.0, 2: 1.0})]
    before, after = _find_cores(measure_paces(sides), sides)
    assert before == pytest.approx([1.0, 1.0], abs=0.1)
    assert after == pytest.approx([2.0, 1.0], rel=0.1)


def test_a_moment_that_is_slower_is_no_slower_thread() -> None:
    side = _list_stretches(1, {1: 1.0, 2: 1.0})
    row = pl.int_range(pl.len())
    slow = side.with_columns(
        ns=pl.when(row.is_between(1_000, 1_999)).then(3 * pl.col("ns")).otherwise("ns")
    )
    pace = measure_paces([slow])[0]
    assert pace["core"].max() == pytest.approx(1.0, abs=0.1)  # type: ignore[arg-type]
    assert pace["pace"][1_100:1_900].mean() == pytest.approx(3.0, rel=0.1)
    assert pace["pace"][2_100:].mean() == pytest.approx(1.0, abs=0.15)


def test_both_sides_slower_is_no_difference() -> None:
    sides = [_list_stretches(n, {1: 2.0, 2: 2.0}) for n in (1, 2)]
    assert _find_cores(measure_paces(sides), sides) == [
        pytest.approx([1.0, 1.0], abs=0.1) for _ in sides
    ]


def test_sides_that_share_no_work_are_not_measured_by_each_other() -> None:
    sides = [
        _list_stretches(1, {1: 1.0, 2: 1.0}),
        _list_stretches(2, {1: 2.0, 2: 2.0}, kinds=KINDS),
    ]
    for cores in _find_cores(measure_paces(sides), sides):
        assert cores == pytest.approx([1.0, 1.0], abs=0.1)


def test_too_little_says_nothing() -> None:
    few = _list_stretches(1, {1: 1.0, 2: 5.0}).head(10)
    (pace,) = measure_paces([few])
    assert pace["core"].to_list() == pace["pace"].to_list() == [1.0] * 10


def test_waits_for_a_lock_are_no_pace() -> None:
    """One stretch of ten is 20 µs longer, as where another thread holds Python's lock."""
    sides = [_list_stretches(n, {1: 1.0, 2: 1.0}) for n in (1, 2)]
    held = pl.int_range(pl.len()) % 10 == 3
    sides[0] = sides[0].with_columns(ns=pl.col("ns") + pl.when(held).then(20_000).otherwise(0))
    paces = measure_paces(sides)
    assert _find_cores(paces, sides)[0] == pytest.approx([1.0, 1.0], abs=0.1)
    assert paces[0]["pace"].mean() == pytest.approx(1.0, abs=0.15)
