"""What a change of the graph gains."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sightline.replay.gains import replay_gain
from sightline.replay.replay import is_op, measure_span, remove_ops, replay_graph
from support.simulated import simulated
from support.traces import copy, kernel, opened


def test_a_kernel_gone_shortens_by_its_length_where_nothing_else_limits():
    made = simulated("dominating_kernel")
    ops = made.run.table("device_ops")
    flash = ops.filter(pl.col("name").str.contains("flash")).get_column("device_op_id")
    nodes = made.run.ask("dependencies")
    result = replay_gain(made.run, lambda n: remove_ops(n, flash))
    device = ops.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    gone = device.filter(pl.col("device_op_id").is_in(flash.implode())).get_column("ns").sum()
    # Without it each also saves the gap between it and its neighbour on the stream.
    assert gone <= result.ns <= gone + 2_000 * flash.len()
    assert result.before_ns == measure_span(nodes, replay_graph(nodes), is_op(nodes))


def test_idle_time_that_nothing_explains_does_not_end_with_what_follows_it(tmp_path: Path) -> None:
    """The copy takes 10 of 1,020 µs; why it begins 990 µs behind the kernel is not recorded."""
    events = [kernel("a", 0, 10), copy("Memcpy DtoH", 1_000, 10, 8), kernel("b", 1_010, 10)]
    run = opened(tmp_path, events)
    ops = run.table("device_ops")
    gone = ops.filter(pl.col("kind") == "memcpy").get_column("device_op_id")
    assert replay_gain(run, lambda nodes: remove_ops(nodes, gone)).ns <= 11_000
