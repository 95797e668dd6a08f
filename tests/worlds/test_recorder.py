"""Simulated recorders of unknown cost: the step without them, beside the same program played so."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sightline
from sightline.compare.comparison import compare_samples
from sightline.compare.sample import take_sample
from sightline.core.model.run import Run
from sightline.replay.unrecorded import remove_recorder
from sightline.timeline.step_clock import list_steady_steps
from support.campaigns import sample
from worlds import kineto
from worlds.recorded import RunRecord
from worlds.recorder import Recorder, draw_recorder, measure_step, write_small_operators
from worlds.world import World

SMALL_NS, LARGE_NS = 1_500, 150_000  # kernels that the host is the limit of, and the device
WIDEST, POINTS = 0.251, 0.10


def _play(
    seed: int, kernel_ns: float, recorder: Recorder | None = None, without: int = 0
) -> RunRecord:
    world = World(seed)
    write_small_operators(world, kernel_ns=kernel_ns, without=without)
    if recorder is not None:
        recorder.slow(world)
    return world.play()


def _write(folder: Path, seed: int, recorded: RunRecord) -> Run:
    folder.mkdir(exist_ok=True)
    return sightline.open(str(kineto.write_run(recorded, folder, "new", seed, python=True)[0]))


def _is_covered(folder: Path, seed: int) -> bool:
    """Whether the stated range holds the true step; its width is within what is promised."""
    truth = measure_step(_play(seed, SMALL_NS).ranks[0])
    recorded = _play(seed, SMALL_NS, draw_recorder(seed))
    assert measure_step(recorded.ranks[0]) > 1.05 * truth
    known = remove_recorder(_write(folder, seed, recorded))
    if known is None:
        return False
    assert 1 - WIDEST <= known.low_ns / known.ns <= known.high_ns / known.ns <= 1 + WIDEST
    return known.low_ns <= truth <= known.high_ns


def test_the_range_holds_the_step_without_the_recorder(tmp_path: Path) -> None:
    covered = [_is_covered(tmp_path, seed) for seed in sample(range(100), 34)]
    assert sum(covered) >= 0.9 * len(covered)


def _compare(folder: Path, seed: int) -> tuple[float, float]:
    """A step's true change by a fix, and what is said of it; one side ran on a slower core."""
    luck = random.Random(f"fix/{seed}")
    without, paces = luck.randint(1, 4), [1.0, luck.uniform(1.3, 2.1)]
    luck.shuffle(paces)
    truths, samples = [], []
    for side, (less, pace) in enumerate(zip((0, without), paces, strict=True)):
        truths.append(measure_step(_play(seed, SMALL_NS, without=less).ranks[0]))
        recorded = _play(seed, SMALL_NS, draw_recorder(seed, pace), without=less)
        samples.append(take_sample(_write(folder / str(side), seed, recorded), str(side)))
    said = compare_samples(samples[:1], samples[1:])["step"]
    return truths[1] / truths[0] - 1, said["after_ns"] / said["before_ns"] - 1


def test_a_slower_core_on_one_side_is_no_change(tmp_path: Path) -> None:
    pairs = [_compare(tmp_path, seed) for seed in sample(range(50), 25)]
    assert sum(abs(said - true) <= POINTS for true, said in pairs) >= 0.9 * len(pairs)
    assert all(said < 0 for true, said in pairs if true < -POINTS)


@pytest.mark.parametrize("seed", sample(range(20), 10))
def test_where_the_device_is_the_limit_the_clock_is_exact(tmp_path: Path, seed: int) -> None:
    """As recorded, and with nothing taken off it."""
    recorded = _play(seed, LARGE_NS, draw_recorder(seed))
    run = _write(tmp_path, seed, recorded)
    steps = list_steady_steps(run)
    clock = (steps.get_column("end_ns") - steps.get_column("start_ns")).to_list()
    step = measure_step(recorded.ranks[0])
    assert sum(clock) / len(clock) == pytest.approx(step, rel=0.01)
    assert step == pytest.approx(measure_step(_play(seed, LARGE_NS).ranks[0]), rel=0.05)
    assert remove_recorder(run) is None
