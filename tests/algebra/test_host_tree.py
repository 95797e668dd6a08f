"""Trees of host ranges: the columnar nesting against the stack, on any set of ranges."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.algebra import host_tree
from sightline.algebra.host_tree import with_tree
from sightline.algebra.nesting import nest

RANGES = st.lists(
    st.tuples(
        st.integers(1, 2),  # pid
        st.integers(1, 2),  # tid
        st.integers(0, 25),  # start
        st.integers(0, 12),  # length
        st.integers(0, 1),  # order
    ),
    max_size=40,
)


def frame_of(ranges: list[tuple[int, int, int, int, int]]) -> pl.DataFrame:
    rows = [(p, t, s, s + d, o, i) for i, (p, t, s, d, o) in enumerate(ranges)]
    names = ["pid", "tid", "start_ns", "end_ns", "order", "n"]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")


def by_stack(ranges: list[tuple[int, int, int, int, int]]) -> list[tuple[object, ...]]:
    """What the house did before: sort rows in Python, nest with a stack."""
    rows = sorted(((p, t), s, -(s + d), o, i) for i, (p, t, s, d, o) in enumerate(ranges))
    lanes = {lane: k for k, lane in enumerate(sorted({r[0] for r in rows}))}
    found = nest([lanes[r[0]] for r in rows], [r[1] for r in rows], [-r[2] for r in rows])
    return [(r[4], *answer) for r, answer in zip(rows, zip(*found, strict=True), strict=True)]


@given(RANGES, st.integers(1, 4))
def test_equals_the_stack(ranges: list[tuple[int, int, int, int, int]], levels: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_tree, "_COLUMNAR_LEVELS", levels)
        tree = with_tree(frame_of(ranges), order=pl.col("order"))
    assert tree.select("n", "parent_id", "depth", "subtree_end_id").rows() == by_stack(ranges)
    assert tree.get_column("host_op_id").to_list() == list(range(len(ranges)))


@given(RANGES)
def test_long_recordings_of_many_threads(ranges: list[tuple[int, int, int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_tree, "KEY_LIMIT", 0)
        tree = with_tree(frame_of(ranges), order=pl.col("order"))
    assert tree.select("n", "parent_id", "depth", "subtree_end_id").rows() == by_stack(ranges)


def test_rows_apart_come_last_and_hold_nothing() -> None:
    frame = frame_of([(1, 1, 0, 10, 0), (1, 1, 0, 20, 1), (1, 1, 2, 3, 0)])
    tree = with_tree(frame, apart=pl.col("order") == 1)
    columns = ["n", "host_op_id", "parent_id", "depth", "subtree_end_id"]
    assert tree.select(columns).rows() == [(0, 0, None, 0, 2), (2, 1, 0, 1, 2), (1, 2, None, 0, 3)]


def test_threads_without_a_number() -> None:
    frame = frame_of([(1, 1, 0, 10, 0), (1, 1, 1, 2, 0)]).with_columns(tid=pl.lit(None, pl.Int64))
    assert with_tree(frame).get_column("depth").to_list() == [0, 1]
