"""Nesting and questions about it, against plain recursion."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from reference_reader.nesting import nest
from sightline.core.algebra.trees import (
    find_nearest_ancestor,
    find_open_range,
    is_outermost,
    sum_subtrees,
)

Range = tuple[int, int, int]  # thread, start, end

ranges = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 15), st.integers(0, 8)).map(
        lambda t: (t[0], t[1], t[1] + t[2])
    ),
    max_size=15,
).map(lambda rows: sorted(rows, key=lambda r: (r[0], r[1], -r[2])))
names = st.lists(st.sampled_from("abc"), min_size=15, max_size=15)


def parents(rows: list[Range]) -> list[int | None]:
    """The innermost open range of the thread that holds at least half of a range."""
    answer: list[int | None] = []
    still_open: list[int] = []
    for i, (thread, start, end) in enumerate(rows):
        still_open = [j for j in still_open if rows[j][0] == thread and start < rows[j][2]]
        while still_open and 2 * (rows[still_open[-1]][2] - start) < end - start:
            still_open.pop()
        answer.append(still_open[-1] if still_open else None)
        still_open.append(i)
    return answer


def ancestors(row: int, parent: list[int | None]) -> list[int]:
    above = parent[row]
    return [] if above is None else [above, *ancestors(above, parent)]


def table(rows: list[Range], texts: list[str]) -> pl.DataFrame:
    """A host_ops frame of one recording, as the importer makes it."""
    parent, depth, last = nest(*([list(c) for c in zip(*rows, strict=True)] or [[], [], []]))
    columns: dict[str, Any] = {
        "host_op_id": list(range(len(rows))),
        "parent_id": parent,
        "subtree_end_id": last,
        "depth": depth,
        "rank": [0] * len(rows),
        "pid": [1] * len(rows),
        "tid": [r[0] for r in rows],
        "start_ns": [r[1] for r in rows],
        "end_ns": [r[2] for r in rows],
        "recording_id": [0] * len(rows),
    }
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Int64)).with_columns(
        name=pl.Series(texts[: len(rows)], dtype=pl.String)
    )


@given(ranges)
def test_nest_finds_the_innermost_open_range(rows: list[Range]) -> None:
    parent, depth, last = nest(*([list(c) for c in zip(*rows, strict=True)] or [[], [], []]))
    assert parent == parents(rows)
    assert depth == [len(ancestors(i, parent)) for i in range(len(rows))]
    for i in range(len(rows)):
        below = [j for j in range(len(rows)) if i in ancestors(j, parent)]
        assert below == list(range(i + 1, last[i]))


def test_a_child_rounded_past_its_parents_end_still_belongs_to_it() -> None:
    parent, depth, last = nest([0, 0, 0], [0, 5, 12], [10, 11, 13])
    assert (parent, depth, last) == ([None, 0, None], [0, 1, 0], [2, 2, 3])


def test_a_range_that_begins_while_a_call_returns_is_no_part_of_it() -> None:
    # A step is marked by a call that returns just after the step has begun.
    parent, depth, last = nest([0] * 4, [0, 10, 12, 20], [100, 13, 90, 30])
    assert (parent, depth, last) == ([None, 0, 0, 2], [0, 1, 1, 2], [4, 2, 4, 4])


@given(ranges, names, st.lists(st.integers(0, 14), max_size=6), st.booleans())
def test_nearest_ancestor_climbs(
    rows: list[Range], texts: list[str], wanted: list[int], itself: bool
) -> None:
    host = table(rows, texts)
    marked = {w for w in wanted if w < len(rows)}
    start = pl.Series(list(range(len(rows))), dtype=pl.Int64)
    got = find_nearest_ancestor(
        host, start, pl.Series(sorted(marked), dtype=pl.Int64), itself=itself
    )
    parent = host.get_column("parent_id").to_list()
    want = [
        next((a for a in [i] * itself + ancestors(i, parent) if a in marked), None)
        for i in range(len(rows))
    ]
    assert got.to_list() == want


@given(ranges, names, st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=15, max_size=15))
def test_subtree_sum_adds_all_descendants(
    rows: list[Range], texts: list[str], values: list[int | None]
) -> None:
    own = values[: len(rows)]
    host = table(rows, texts).with_columns(v=pl.Series(own, dtype=pl.Int64))
    parent = host.get_column("parent_id").to_list()
    want = [
        sum(own[j] or 0 for j in range(len(rows)) if j == i or i in ancestors(j, parent))
        for i in range(len(rows))
    ]
    assert sum_subtrees(host, "v").to_list() == want


@given(ranges, names)
def test_outermost_has_no_ancestor_of_its_name(rows: list[Range], texts: list[str]) -> None:
    host = table(rows, texts)
    parent = host.get_column("parent_id").to_list()
    want = [texts[i] not in [texts[a] for a in ancestors(i, parent)] for i in range(len(rows))]
    assert is_outermost(host, "name").to_list() == want


@given(
    ranges,
    names,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 25)), min_size=1, max_size=6),
)
def test_open_at_finds_the_innermost_range(
    rows: list[Range], texts: list[str], asked: list[tuple[int, int]]
) -> None:
    host = table(rows, texts)
    threads = pl.DataFrame(
        {
            "rank": [0] * len(asked),
            "pid": [1] * len(asked),
            "tid": [a[0] for a in asked],
            "t": [a[1] for a in asked],
        }
    )
    got = find_open_range(host, threads, "t").to_list()
    parent = host.get_column("parent_id").to_list()
    for (thread, t), found in zip(asked, got, strict=True):
        # The last range that started, or the nearest one around it that has not ended.
        started = [i for i, r in enumerate(rows) if r[0] == thread and r[1] <= t]
        chain = [] if not started else [started[-1], *ancestors(started[-1], parent)]
        assert found == next((i for i in chain if rows[i][2] > t), None)


def test_ranges_around_each_other_are_climbed_once():
    """As a damaged store has them."""
    host = pl.DataFrame({"host_op_id": [0, 1, 2], "parent_id": [1, 0, 2]})
    found = find_nearest_ancestor(host, pl.Series([0, 1, 2]), pl.Series([9]))
    assert found.to_list() == [None, None, None]
