"""What a change of the graph gains."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sightline.replay.gains import replay_gain
from sightline.replay.replay import is_op, measure_span, remove_ops, replay_graph, shorten_thinking
from sightline.timeline.step_clock import list_steady_steps
from support.simulated import simulated
from support.traces import call, copy, kernel, launch, launched, opened, step


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


def test_an_allocation_behind_a_copy_that_is_gone_takes_its_time_all_the_same(
    tmp_path: Path,
) -> None:
    """cudaFree begins when the copy back has ended, and sets a library up for 900 of 1,100 µs.

    Without the copy it begins 40 µs earlier; that it follows the copy makes it no wait for it.
    """
    events = [
        *launched(0, kernel("a", 10, 100)),
        *launched(112, copy("Memcpy DtoH", 120, 30, 8), "cudaMemcpy", 42),
        call("cudaFree", 160, 900),
        *launched(1_070, kernel("b", 1_080, 20)),
    ]
    run = opened(tmp_path, events)
    ops = run.table("device_ops")
    gone = ops.filter(pl.col("kind") == "memcpy").get_column("device_op_id")
    assert replay_gain(run, lambda nodes: remove_ops(nodes, gone)).ns <= 150_000


def test_what_precedes_the_first_operation_of_a_step_is_gained_too(tmp_path: Path) -> None:
    """Six steps of 200 µs, of which the host works for 150 before it launches a kernel of 40."""
    events = []
    for number in range(6):
        at = 200 * number
        events += [step(number, at, 200), launch(at + 150, 5, number + 1)]
        events += [
            kernel("k", at + 157, 40, number + 1),
            call("cudaDeviceSynchronize", at + 158, 41),
        ]
    run = opened(tmp_path, events).with_window("steady")
    steps = list_steady_steps(run).height
    assert steps == 5
    gain = replay_gain(run, lambda nodes: shorten_thinking(nodes, nodes["prev_lag_ns"]))
    assert steps * 195_000 <= gain.before_ns <= steps * 200_000
    # What is left of a step: the launch, its latency, the kernel, and the return of the wait.
    assert gain.after_ns <= steps * 50_000
