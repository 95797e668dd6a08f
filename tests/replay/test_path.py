"""The critical path has no hole, and slack is what a node may grow."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.replay.critical_path import compute_slack, trace_critical_path
from sightline.replay.replay import is_op, replay_graph
from support.simulated import WITH_DEVICE, simulated


def nodes_of(scenario, seed=0, dialect="2025"):
    return simulated(scenario, seed, dialect).run.ask("dependencies")


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
    spare = compute_slack(nodes)
    ops = nodes.with_columns(spare=spare).filter(is_op(nodes), pl.col("meeting").is_null())
    last = nodes.filter(is_op(nodes)).get_column("end_ns").max()
    for node, room in ops.sample(min(12, ops.height), seed=1).select("node", "spare").rows():
        longer = nodes.with_columns(
            end_ns=pl.col("end_ns") + pl.when(pl.col("node") == node).then(room).otherwise(0)
        )
        assert replay_graph(longer).end.filter(is_op(nodes)).max() == last
        longer = longer.with_columns(
            end_ns=pl.col("end_ns") + pl.when(pl.col("node") == node).then(50).otherwise(0)
        )
        assert replay_graph(longer).end.filter(is_op(nodes)).max() == last + 50


def test_pieces_of_an_empty_window():
    nodes = nodes_of("healthy")
    assert trace_critical_path(nodes, 0, 1).is_empty()
