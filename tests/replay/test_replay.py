"""An unchanged replay is the recording; changes do what they must."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.replay.replay import is_op, remove_ops, replay_graph, scale_nodes
from support.campaigns import examples, sample
from support.simulated import DIALECT_NAMES, WITH_DEVICE, simulated


def nodes_of(scenario, seed=0, dialect="2025"):
    return simulated(scenario, seed, dialect).run.ask("dependencies")


@pytest.mark.parametrize(
    ("scenario", "dialect"), sample(list(product(WITH_DEVICE, DIALECT_NAMES)), 3)
)
def test_unchanged_replay_is_the_recording(scenario, dialect):
    nodes = nodes_of(scenario, 1, dialect)
    times = replay_graph(nodes)
    assert times.start.equals(nodes.get_column("start_ns"))
    assert times.end.equals(nodes.get_column("end_ns"))


@settings(max_examples=examples(20))  # a run is simulated, written and read in each
@given(seed=st.integers(0, 400))
def test_unchanged_replay_of_random_programs(seed):
    nodes = nodes_of("random_program", seed)
    assert replay_graph(nodes).end.equals(nodes.get_column("end_ns"))


def plainly(nodes):
    """The same by the definition, node by node: [(start, end)]."""
    times = []
    meetings = {}
    for number, node in enumerate(nodes.iter_rows(named=True)):
        edges = [
            (node["prev"], "end", node["prev_lag_ns"]),
            (node["launch"], "start", node["launch_lag_ns"]),
            (node["wait"], "end", node["wait_lag_ns"]),
        ]
        moments = [times[to][side] + (lag or 0) for to, side, lag in edges if to is not None] or [0]
        start = max(moments) + node["residual_ns"]
        times.append({"start": start, "end": start + node["end_ns"] - node["start_ns"]})
        if node["meeting"] is not None:
            members = meetings.setdefault(node["meeting"], [])
            members.append((number, node["meeting_lag_ns"]))
            latest = max(times[member]["start"] for member, _ in members)
            for member, lag in members:
                times[member]["end"] = latest + lag
    return [(t["start"], t["end"]) for t in times]


NS = st.integers(-(10**6), 10**12)


@st.composite
def graphs(draw):
    rows = []
    for number in range(draw(st.integers(0, 12))):
        edge = st.none() | st.integers(0, number - 1) if number else st.none()
        meets = draw(st.none() | st.integers(0, 3))
        start = draw(NS)
        rows.append(
            {
                "start_ns": start,
                "end_ns": start + draw(st.integers(0, 10**9)),
                "prev": draw(edge),
                "prev_lag_ns": draw(NS),
                "launch": draw(edge),
                "launch_lag_ns": draw(NS),
                "wait": draw(edge),
                "wait_lag_ns": draw(NS),
                "residual_ns": draw(NS),
                "meeting": meets,
                "meeting_lag_ns": None if meets is None else draw(NS),
            }
        )
    names = (
        "start_ns",
        "end_ns",
        "prev",
        "prev_lag_ns",
        "launch",
        "launch_lag_ns",
        "wait",
        "wait_lag_ns",
        "residual_ns",
        "meeting",
        "meeting_lag_ns",
    )
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64))


@given(nodes=graphs())
def test_replay_is_as_defined(nodes):
    times = replay_graph(nodes)
    assert list(zip(times.start, times.end, strict=True)) == plainly(nodes)


def test_edge_to_nowhere_is_an_error():
    nodes = nodes_of("random_program").with_columns(prev=pl.lit(10**9, pl.Int64))
    with pytest.raises(IndexError):
        replay_graph(nodes)


@pytest.mark.parametrize("scenario", WITH_DEVICE)
@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_less_work_is_never_later(scenario, factor):
    nodes = nodes_of(scenario)
    factors = nodes.select(pl.when(is_op(nodes)).then(factor)).to_series()
    times = replay_graph(scale_nodes(nodes, factors))
    assert (times.end <= nodes.get_column("end_ns")).all()


def test_a_call_waits_for_the_place_that_is_left_in_a_full_queue():
    """The queue takes three: the sixth call waits until the third operation has started.

    Without the first two operations, the third from the sixth is still the third; without the
    fourth, it is the second; without two and four the queue has room for all until the first.
    """
    calls = [
        {"node": n, "kind": "call", "ref_id": 100 + n, "start_ns": n, "end_ns": n} for n in range(6)
    ]
    ops = [
        {"node": 6 + n, "kind": "kernel", "ref_id": n, "launch": n, "start_ns": 10 * n, "end_ns": 9}
        for n in range(6)
    ]
    full = {"node": 12, "kind": "finish", "ref_id": 105, "launch": 8, "start_ns": 20, "end_ns": 21}
    nodes = pl.DataFrame(
        [*calls, *ops, full],
        schema={
            "node": pl.Int64, "kind": pl.String, "ref_id": pl.Int64, "launch": pl.Int64,
            "start_ns": pl.Int64, "end_ns": pl.Int64,
        },
    ).with_columns(
        *(pl.lit(0).alias(c) for c in ("rank", "device_id", "stream_id")),
        *(pl.lit(None, pl.Int64).alias(c) for c in ("prev", "wait", "meeting")),
        *(pl.lit(0).alias(f"{c}_lag_ns") for c in ("prev", "launch", "wait", "meeting")),
        residual_ns=pl.lit(0),
    )  # fmt: skip

    def awaited(*gone: int) -> int | None:
        return remove_ops(nodes, pl.Series(gone, dtype=pl.Int64)).item(12, "launch")

    assert awaited(0, 1) == 8
    assert awaited(3) == 7
    assert awaited(1, 3) == 6
    assert awaited(0, 1, 3) is None
