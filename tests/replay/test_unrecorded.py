"""The run without its recorder: where it is the recorded one, and how times move."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sightline.core.model.run import Run
from sightline.replay.graph import list_nodes
from sightline.replay.recorder_cost import contract_nodes, estimate_costs, spread_costs
from sightline.replay.replay import replay_graph
from sightline.replay.unrecorded import remove_recorder
from support.traces import Event, host, kernel, launch, op, opened, step

STEPS, LAUNCHES = 6, 40


def _record(
    tmp_path: Path, *, think_us: float, kernel_us: float, slow: float = 0.0, frames: int = 0
) -> Run:
    """A loop that launches a kernel after some host work, recorded by PyTorch's profiler.

    `slow` is the share by which its host work is longer than without the recorder, which also
    makes every other launch call longer; `frames` are Python frames before each launch, of 1 µs
    each, that take nothing without it.
    """
    events: list[Event] = []
    at, free, corr = 0.0, 0.0, 0
    noise = random.Random(7)
    for number in range(STEPS):
        begin = at
        for _ in range(LAUNCHES):
            for _ in range(frames):
                events.append(host("python_function", "train.py(3): f", at + 0.3, 0.4))
                at += 1
            events.append(op("aten::mul", at, think_us * (1 + slow) + 6))
            at += think_us * (1 + slow)
            took = 4 * (1 + 2 * slow * (noise.random() > 0.5))
            corr += 1
            events.append(launch(at, took, corr))
            free = max(free, at + 2) + kernel_us
            events.append(kernel("k", free - kernel_us, kernel_us, corr))
            at += took + 2
        events.append(step(number, begin, at - begin))
    return opened(tmp_path, events)


def test_no_cost_is_the_recorded_run(tmp_path: Path) -> None:
    """Launch calls of one length and no Python frames: nothing shows a recorder's cost."""
    assert remove_recorder(_record(tmp_path, think_us=10, kernel_us=2)) is None


def test_launches_too_fast_for_a_recorder_show_none(tmp_path: Path) -> None:
    """2 to 3 µs a launch, of any spread: what CUPTI records takes longer."""
    events: list[Event] = []
    noise = random.Random(3)
    for n in range(STEPS * LAUNCHES):
        events += [launch(20 * n, 2 + noise.random(), n + 1), kernel("k", 20 * n + 8, 2, n + 1)]
    assert remove_recorder(opened(tmp_path, events)) is None


def test_where_the_device_is_the_limit_nothing_changes(tmp_path: Path) -> None:
    run = _record(tmp_path, think_us=3, kernel_us=40, slow=0.5, frames=3)
    assert remove_recorder(run) is None


@pytest.mark.parametrize("frames", [2, 6])
def test_frames_cost_nothing_without_their_recorder(tmp_path: Path, frames: int) -> None:
    """A step of 40 × (10 + 6) µs, and 1 µs for each frame that was recorded."""
    known = remove_recorder(_record(tmp_path, think_us=10, kernel_us=2, frames=frames))
    assert known is not None
    assert known.is_step
    assert known.recorded_ns == LAUNCHES * (16 + frames) * 1000
    assert known.low_ns <= LAUNCHES * 16_000 <= known.high_ns


def test_host_work_that_was_slowed_is_as_it_was(tmp_path: Path) -> None:
    """Half of the launches take twice as long as the hot ones, as all other host work does, too."""
    known = remove_recorder(_record(tmp_path, think_us=3, kernel_us=1, slow=0.5))
    assert known is not None
    assert known.low_ns <= LAUNCHES * (3 + 4 + 2) * 1000 <= known.high_ns


def test_rows_keep_their_order_and_nesting(tmp_path: Path) -> None:
    run = _record(tmp_path, think_us=10, kernel_us=2, frames=4)
    known = remove_recorder(run)
    assert known is not None
    before, after = (r.table("host_ops") for r in (run, known.run))
    assert after.get_column("start_ns").is_sorted() == before.get_column("start_ns").is_sorted()
    assert (after.get_column("end_ns") >= after.get_column("start_ns")).all()
    ops = known.run.table("device_ops").sort("start_ns")
    assert (ops.get_column("start_ns").diff().drop_nulls() > 0).all()
    back = known.run.restore(after.get_column("start_ns"), 0) - before.get_column("start_ns")
    assert back.abs().quantile(0.9) <= 2000  # ns: what was made shorter is one moment there


def test_times_of_nothing_taken_are_the_recorded_ones(tmp_path: Path) -> None:
    run = _record(tmp_path, think_us=10, kernel_us=2, frames=4)
    nodes = list_nodes(run)
    costs = estimate_costs(run, nodes)
    replayed = replay_graph(contract_nodes(nodes, spread_costs(nodes, costs), 0.0))
    assert replayed.start.to_list() == nodes.get_column("start_ns").to_list()
