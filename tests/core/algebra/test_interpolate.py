"""Moments move in order, far from 1970 too, and between anchors as NumPy has it."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.algebra.interpolate import interpolate

ORIGIN = 1_700_000_000_000_000_000  # ns since 1970, in 2023


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=30),
    st.lists(st.integers(-(10**7), 10**8), min_size=1, max_size=40),
)
def test_moments_move_in_order(steps: list[tuple[int, int]], moments: list[int]) -> None:
    before = ORIGIN + np.cumsum([b for b, _ in steps])
    after = ORIGIN + np.cumsum([a for _, a in steps])
    asked = np.sort(ORIGIN + np.array(moments))
    moved = interpolate(*(pl.Series(each) for each in (asked, before, after))).to_numpy()
    inside = np.clip(asked, before[0], before[-1])
    exact = np.interp(inside - before[0], before - before[0], after - after[0])
    assert (moved == np.rint(exact).astype(int) + after[0] + (asked - inside)).all()
    if (np.diff(before) > 0).all():
        assert (np.diff(moved) >= 0).all()
        early, late = asked < before[0], asked > before[-1]
        assert (moved[early] - after[0] == asked[early] - before[0]).all()
        assert (moved[late] - after[-1] == asked[late] - before[-1]).all()
