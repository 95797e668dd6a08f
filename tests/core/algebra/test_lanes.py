"""Lanes of the timeline against what makes them lanes: order, no overlap, none too many."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.algebra.lanes import assign_lanes

EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0, 2, 3]),  # track
        st.sampled_from([0, 1, 5]),  # level
        st.integers(0, 20),  # start
        st.integers(0, 8),  # length
    ),
    max_size=30,
)
START = 1_700_000_000_000_000_000


def frame_of(events: list[tuple[int, int, int, int]]) -> pl.DataFrame:
    rows = [(t, n, START + s, START + s + d, i) for i, (t, n, s, d) in enumerate(events)]
    names = ["track", "level", "start_ns", "end_ns", "id"]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")


@given(EVENTS)
def test_lanes_are_in_order_and_free_of_overlap(events):
    frame = frame_of(events)
    found = assign_lanes(frame)
    assert sorted(found.drop("lane").rows()) == sorted(frame.rows())
    rows = found.select("track", "lane", "start_ns", "end_ns", "level", "id").rows()
    assert [r[:3] for r in rows] == sorted(r[:3] for r in rows)
    for one, other in pairwise(rows):
        if one[:2] == other[:2]:  # an event of no length takes 1 ns
            assert max(one[3], one[2] + 1) <= other[2]
            assert one[4] == other[4]
    for track in {r[0] for r in rows}:
        mine = [r for r in rows if r[0] == track]
        assert {r[1] for r in mine} == set(range(len({r[1] for r in mine})))
        assert [r[4] for r in mine] == sorted(r[4] for r in mine)  # levels follow one another


@given(EVENTS)
def test_a_level_has_as_many_lanes_as_are_open_at_once(events):
    found = assign_lanes(frame_of(events))
    for (track, level), rows in found.partition_by("track", "level", as_dict=True).items():
        mine = [(s, s + max(d, 1)) for t, n, s, d in events if (t, n) == (track, level)]
        most = max(sum(s <= moment < e for s, e in mine) for moment, _ in mine)
        assert rows.get_column("lane").n_unique() == most


def test_of_events_that_start_together_the_longest_is_first_then_the_earlier_row():
    found = assign_lanes(frame_of([(0, 0, 5, 2), (0, 0, 5, 2), (0, 0, 5, 9), (0, 0, 1, 1)]))
    assert found.select("id", "lane").rows() == [(3, 0), (2, 0), (0, 1), (1, 2)]


def test_times_may_be_as_far_apart_as_they_can_be() -> None:
    most = 2**63 - 1
    frame = pl.DataFrame(
        {"track": [1, 0, 0], "level": [0, most, 3], "start_ns": [0, -most, -most],
         "end_ns": [most, most, 5], "id": [0, 1, 2]}
    )  # fmt: skip
    assert assign_lanes(frame).select("id", "lane").rows() == [(2, 0), (1, 1), (0, 0)]


def test_many_events_that_overlap_have_a_lane_each() -> None:
    """A hundred thousand: a look at every lane for each of them would take minutes."""
    count = 100_000
    frame = pl.select(
        track=pl.repeat(0, count), level=pl.repeat(0, count), start_ns=pl.int_range(count),
        end_ns=2 * count - pl.int_range(count),
    )  # fmt: skip
    assert assign_lanes(frame).get_column("lane").to_list() == list(range(count))
