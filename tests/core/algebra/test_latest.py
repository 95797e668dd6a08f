"""What came last before a moment, against a plain search."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.algebra.latest import find_latest

groups = st.none() | st.integers(-1, 1)
times = st.none() | st.integers(-4, 4)
events = st.lists(st.tuples(groups, groups, times, st.integers(0, 2)), max_size=20)
queries = st.lists(st.tuples(groups, groups, times), max_size=20)


def frame(rows, columns):
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Int64), orient="row")


@given(queries, events, st.integers(0, 2))
def test_the_last_event_of_the_group_is_found(asked, known, width):
    by = ["a", "b"][:width]
    found = find_latest(
        frame(asked, ["a", "b", "at"]),
        "at",
        frame(known, ["a", "b", "t", "tie"]),
        "t",
        by,
        ties=["tie"],
    )
    assert found.to_list() == [plainly(query, known, width) for query in asked]


def plainly(query, known, width):
    """The row of the highest (time, tie, row) that is not after the query, or None."""
    *group, at = query[:width] + query[2:]
    before = [
        (t, tie, row)
        for row, (a, b, t, tie) in enumerate(known)
        if None not in group
        and at is not None
        and t is not None
        and [a, b][:width] == group
        and t <= at
    ]
    return max(before)[2] if before else None


@given(st.lists(st.integers(0, 10_000), unique=True, max_size=300))
def test_many_groups_are_told_apart(numbers):
    known = frame([(n, 0, 1, 0) for n in numbers], ["a", "b", "t", "tie"])
    asked = frame([(n, 0, 1) for n in [*reversed(numbers), 20_000]], ["a", "b", "at"])
    found = find_latest(asked, "at", known, "t", ["a", "b"])
    assert found.to_list() == [*range(len(numbers) - 1, -1, -1), None]
