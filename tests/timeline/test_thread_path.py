"""The critical path of threads: the graphs and paths of Trace Compass' own tests, as figures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.subjects.system.thread_path import Lane, Link, trace_thread_path
from support.campaigns import examples

R, B = "running", "blocked"
# The scenarios of GraphFactory.java in Trace Compass (analysis.graph.core.tests), each with the
# path that its test of the bounded algorithm expects: per thread (state, end, link), from its begin
# on; then the path as (thread, state, begin, end).
Scenario = tuple[dict[int, tuple[int, list[tuple[Any, ...]]]], list[tuple[int, str, int, int]]]
SCENARIOS: dict[str, Scenario] = {
    "basic": ({0: (0, [(R, 1)])}, [(0, R, 0, 1)]),
    "wakeup_missing": (
        {0: (0, [(R, 2), (B, 4), (R, 6)])},
        [(0, R, 0, 2), (0, B, 2, 4), (0, R, 4, 6)],
    ),
    "wakeup_unknown": (
        {0: (0, [(R, 2), (B, 4, (1, 3, "network")), (R, 6)])},
        [(0, R, 0, 2), (1, "unknown", 2, 3), (0, "network", 3, 4), (0, R, 4, 6)],
    ),
    "wakeup_new": (
        {0: (0, [(R, 2), (R, 4), (B, 6, (1, 6)), (R, 8)]), 1: (3, [(R, 6)])},
        [(0, R, 0, 2), (0, R, 2, 4), (1, R, 4, 6), (0, R, 6, 8)],
    ),
    "opened_delay": (
        {0: (0, [(R, 3), (B, 6, (1, 2)), (R, 9)]), 1: (0, [(R, 2), (R, 5)])},
        [(0, R, 0, 3), (0, "wakeup", 3, 6), (0, R, 6, 9)],
    ),
    "opened": (
        {0: (0, [(R, 3), (B, 6, (1, 6)), (R, 9)]), 1: (0, [(R, 6), (R, 9)])},
        [(0, R, 0, 3), (1, R, 3, 6), (0, R, 6, 9)],
    ),
    "wakeup_mutual": (
        {
            0: (0, [(R, 1), (R, 2), (R, 3), (B, 4, (1, 4)), (R, 5)]),
            1: (0, [(R, 1), (B, 2, (0, 2)), (R, 3), (R, 4), (R, 5)]),
        },
        [(0, R, 0, 1), (0, R, 1, 2), (0, R, 2, 3), (1, R, 3, 4), (0, R, 4, 5)],
    ),
    "wakeup_embedded": (
        {
            0: (0, [(R, 2), (R, 4), (R, 6), (B, 8, (1, 8)), (B, 10, (2, 10)), (R, 12)]),
            1: (4, [(R, 8)]),
            2: (2, [(R, 10)]),
        },
        [(0, R, 0, 2), (0, R, 2, 4), (0, R, 4, 6), (1, R, 6, 8), (2, R, 8, 10), (0, R, 10, 12)],
    ),
    "wakeup_interleave": (
        {
            0: (0, [(R, 2), (R, 4), (R, 6), (B, 8, (1, 8)), (B, 10, (2, 10)), (R, 12)]),
            1: (2, [(R, 8)]),
            2: (4, [(R, 10)]),
        },
        [(0, R, 0, 2), (0, R, 2, 4), (0, R, 4, 6), (1, R, 6, 8), (2, R, 8, 10), (0, R, 10, 12)],
    ),
    "nested": (
        {
            0: (0, [(R, 1), (B, 6, (1, 6)), (R, 7)]),
            1: (1, [(R, 2), (B, 5, (2, 5)), (R, 6)]),
            2: (2, [(R, 3), (B, 4, (3, 4)), (R, 5)]),
            3: (3, [(R, 4)]),
        },
        [
            (0, R, 0, 1), (1, R, 1, 2), (2, R, 2, 3), (3, R, 3, 4), (2, R, 4, 5), (1, R, 5, 6),
            (0, R, 6, 7),
        ],
    ),
    "net1": (
        {
            0: (0, [(R, 1), (B, 11, (3, 11)), (R, 12)]),
            1: (3, [(R, 4), (R, 5)]),
            2: (6, [(R, 7, (1, 4, "network")), (R, 8)]),
            3: (9, [(R, 10, (2, 8, "network")), (R, 11)]),
        },
        [
            (0, R, 0, 1), (1, "unknown", 1, 3), (1, R, 3, 4), (2, "network", 4, 7), (2, R, 7, 8),
            (3, "network", 8, 10), (3, R, 10, 11), (0, R, 11, 12),
        ],
    ),
}  # fmt: skip


def lanes(given_: dict[int, tuple[int, list[tuple[Any, ...]]]]) -> dict[int, Lane]:
    made = {}
    for tid, (begin, states) in given_.items():
        lane = Lane()
        for state, end, *link in states:
            lane.starts.append(begin)
            lane.ends.append(end)
            lane.states.append(state)
            lane.links.append(Link(*link[0]) if link else None)
            begin = end
        made[tid] = lane
    return made


@pytest.mark.parametrize("name", SCENARIOS)
def test_path_is_that_of_trace_compass(name: str) -> None:
    given_, expected = SCENARIOS[name]
    threads = lanes(given_)
    path = trace_thread_path(threads.get, 0, 0, threads[0].ends[-1])
    assert [(p.tid, p.state, p.start_ns, p.end_ns) for p in path] == expected


def test_a_thread_without_a_past_leads_to_the_one_that_made_it() -> None:
    """1 makes 2 at 3, which runs from 4 on and wakes 0 at 9; 0 sleeps from 1 on."""
    threads = lanes({0: (0, [(R, 1), (B, 9, (2, 9)), (R, 10)]), 1: (0, [(R, 5)]), 2: (4, [(R, 9)])})
    threads[2].origin = Link(1, 3, "woken")
    path = trace_thread_path(threads.get, 0, 0, 10)
    assert [(p.tid, p.state, p.start_ns, p.end_ns) for p in path] == [
        (0, R, 0, 1), (1, R, 1, 3), (2, "woken", 3, 4), (2, R, 4, 9), (0, R, 9, 10),
    ]  # fmt: skip


STATES = st.lists(
    st.tuples(
        st.sampled_from([R, B, "preempted", "woken", "uninterruptible"]),
        st.integers(0, 6),
        st.none() | st.tuples(st.integers(0, 3), st.integers(0, 40)),
    ),
    max_size=8,
)


@given(st.lists(st.tuples(st.integers(0, 12), STATES), min_size=4, max_size=4))
@settings(max_examples=examples(200), deadline=None)
def test_pieces_leave_no_hole_whatever_was_recorded(
    threads: list[tuple[int, list[tuple[Any, ...]]]],
) -> None:
    """Threads that wake themselves, each other in a circle, or before they were there."""
    made = {}
    for tid, (begin, states) in enumerate(threads):
        rows, at = [], begin
        for state, length, link in states:
            at += length
            rows.append((state, at, *([(link[0], min(link[1], at))] if link else [])))
        made[tid] = (begin, rows)
    path = trace_thread_path(lanes(made).get, 0, 0, 60)
    assert [p.start_ns for p in path] == [0, *(p.end_ns for p in path[:-1])]
    assert path[-1].end_ns == 60
    assert all(p.start_ns < p.end_ns for p in path)
