"""Trees of host ranges, against a stack in Python, on any set of ranges."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from reference_reader.nesting import nest
from sightline.core.algebra.nesting import nest_ranges

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
    """The same with Python's sort, and a list for the stack."""
    rows = sorted(((p, t), s, -(s + d), o, i) for i, (p, t, s, d, o) in enumerate(ranges))
    lanes = {lane: k for k, lane in enumerate(sorted({r[0] for r in rows}))}
    found = nest([lanes[r[0]] for r in rows], [r[1] for r in rows], [-r[2] for r in rows])
    return [(r[4], *answer) for r, answer in zip(rows, zip(*found, strict=True), strict=True)]


@given(RANGES)
def test_equals_the_stack(ranges: list[tuple[int, int, int, int, int]]) -> None:
    tree = nest_ranges(frame_of(ranges), order=pl.col("order"))
    assert tree.select("n", "parent_id", "depth", "subtree_end_id").rows() == by_stack(ranges)
    assert tree.get_column("host_op_id").to_list() == list(range(len(ranges)))


def test_threads_are_in_order_of_process_and_number() -> None:
    lanes = [(7, 2), (-3, 9), (7, None), (None, 5), (7, 1), (2**62, 0), (8, -(2**63))]
    rows = [(p, t, 0, 5, 0, i) for i, (p, t) in enumerate(lanes)]
    names = ["pid", "tid", "start_ns", "end_ns", "order", "n"]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    assert nest_ranges(frame).get_column("n").to_list() == [3, 1, 2, 4, 0, 6, 5]


def test_rows_apart_come_last_and_hold_nothing() -> None:
    frame = frame_of([(1, 1, 0, 10, 0), (1, 1, 0, 20, 1), (1, 1, 2, 3, 0)])
    tree = nest_ranges(frame, apart=pl.col("order") == 1)
    columns = ["n", "host_op_id", "parent_id", "depth", "subtree_end_id"]
    assert tree.select(columns).rows() == [(0, 0, None, 0, 2), (2, 1, 0, 1, 2), (1, 2, None, 0, 3)]


def test_threads_without_a_number() -> None:
    frame = frame_of([(1, 1, 0, 10, 0), (1, 1, 1, 2, 0)]).with_columns(tid=pl.lit(None, pl.Int64))
    assert nest_ranges(frame).get_column("depth").to_list() == [0, 1]
