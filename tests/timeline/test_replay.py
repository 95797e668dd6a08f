"""The dependency graph: an unchanged replay is the recording; changes do what they must."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.timeline.gains import gain
from sightline.timeline.path import critical_path, slack
from sightline.timeline.replay import is_op, replay, scaled, span_ns, without_ops
from support.simulated import DIALECT_NAMES, WITH_DEVICE, simulated


def nodes_of(scenario, seed=0, dialect="2025"):
    return simulated(scenario, seed, dialect).run.ask("dependencies")


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize("scenario", WITH_DEVICE)
def test_unchanged_replay_is_the_recording(scenario, dialect):
    nodes = nodes_of(scenario, 1, dialect)
    times = replay(nodes)
    assert times.start.equals(nodes.get_column("start_ns"))
    assert times.end.equals(nodes.get_column("end_ns"))


@settings(max_examples=20)  # a run is simulated, written and read in each
@given(seed=st.integers(0, 400))
def test_unchanged_replay_of_random_programs(seed):
    nodes = nodes_of("random_program", seed)
    assert replay(nodes).end.equals(nodes.get_column("end_ns"))


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
    times = replay(nodes)
    assert list(zip(times.start, times.end, strict=True)) == plainly(nodes)


def test_edge_to_nowhere_is_an_error():
    nodes = nodes_of("random_program").with_columns(prev=pl.lit(10**9, pl.Int64))
    with pytest.raises(IndexError):
        replay(nodes)


@pytest.mark.parametrize("scenario", WITH_DEVICE)
def test_causes_come_first(scenario):
    nodes = nodes_of(scenario)
    for edge in ("prev", "launch", "wait"):
        assert nodes.filter(pl.col(edge) >= pl.col("node")).is_empty()
    # A residual is never negative: no lag says more than was recorded.
    begun = nodes.filter(pl.any_horizontal(pl.col("prev", "launch", "wait").is_not_null()))
    assert begun.get_column("residual_ns").min() >= 0


@pytest.mark.parametrize("scenario", WITH_DEVICE)
@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_less_work_is_never_later(scenario, factor):
    nodes = nodes_of(scenario)
    factors = nodes.select(pl.when(is_op(nodes)).then(factor)).to_series()
    times = replay(scaled(nodes, factors))
    assert (times.end <= nodes.get_column("end_ns")).all()


def test_a_kernel_gone_shortens_by_its_length_where_nothing_else_limits():
    made = simulated("dominating_kernel")
    ops = made.run.table("device_ops")
    flash = ops.filter(pl.col("name").str.contains("flash")).get_column("device_op_id")
    nodes = made.run.ask("dependencies")
    result = gain(made.run, lambda n: without_ops(n, flash))
    device = ops.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    gone = device.filter(pl.col("device_op_id").is_in(flash.implode())).get_column("ns").sum()
    # Without it each also saves the gap between it and its neighbour on the stream.
    assert gone <= result.ns <= gone + 2_000 * flash.len()
    assert result.before_ns == span_ns(nodes, replay(nodes), is_op(nodes))


@pytest.mark.parametrize("scenario", WITH_DEVICE)
def test_critical_path_leaves_no_hole_and_sums_to_the_window(scenario):
    run = simulated(scenario).run
    pieces = run.ask("critical_path")
    assert (pieces.get_column("start_ns").shift(-1) == pieces.get_column("end_ns"))[:-1].all()
    windows = run.ask("windows").select(n=pl.col("window_end_ns") - pl.col("window_start_ns"))
    assert pieces.get_column("duration_ns").sum() <= windows.get_column("n").max()
    begin = pieces.get_column("start_ns").min()
    assert begin in run.ask("windows").get_column("window_start_ns").to_list()


@pytest.mark.parametrize("scenario", ["healthy", "exposed_communication", "random_program"])
def test_slack_is_what_a_node_may_grow(scenario):
    nodes = nodes_of(scenario)
    spare = slack(nodes)
    ops = nodes.with_columns(spare=spare).filter(is_op(nodes), pl.col("meeting").is_null())
    last = nodes.filter(is_op(nodes)).get_column("end_ns").max()
    for node, room in ops.sample(min(12, ops.height), seed=1).select("node", "spare").rows():
        longer = nodes.with_columns(
            end_ns=pl.col("end_ns") + pl.when(pl.col("node") == node).then(room).otherwise(0)
        )
        assert replay(longer).end.filter(is_op(nodes)).max() == last
        longer = longer.with_columns(
            end_ns=pl.col("end_ns") + pl.when(pl.col("node") == node).then(50).otherwise(0)
        )
        assert replay(longer).end.filter(is_op(nodes)).max() == last + 50


def test_pieces_of_an_empty_window():
    nodes = nodes_of("healthy")
    assert critical_path(nodes, 0, 1).is_empty()
