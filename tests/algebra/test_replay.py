"""The dependency graph: an unchanged replay is the recording; changes do what they must."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.algebra.gains import gain
from sightline.algebra.path import critical_path, slack
from sightline.algebra.replay import is_op, replay, scaled, span_ns, without_ops
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


@given(seed=st.integers(0, 400))
def test_unchanged_replay_of_random_programs(seed):
    nodes = nodes_of("random_program", seed)
    assert replay(nodes).end.equals(nodes.get_column("end_ns"))


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
