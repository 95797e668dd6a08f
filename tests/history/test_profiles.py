"""A continuous profile: windows, their stacks, and a regression of 3 % in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from compare.programs import scale_sample
from sightline.compare.sample import Sample
from sightline.compare.sides import open_side
from sightline.errors import MissingDataError
from sightline.history.history import describe_series
from sightline.history.profiles import (
    add_window,
    compare_windows,
    is_history,
    read_stacks,
    read_values,
    read_windows,
)
from support.campaigns import CAMPAIGNS
from support.many_ranks import Program, write_ranks

PERIOD_NS = 600 * 10**9
BEFORE, MOST = (40, 20) if CAMPAIGNS else (14, 8)
NOISE, CHANGE = 0.01, 1.03


def record_samples(folder: Path, speeds: list[float]) -> Iterator[Sample]:
    """For each factor on all kernels 6 steps of one rank of a simulated job."""
    for number, speed in enumerate(speeds):
        program = Program(1, steps=6, kernel_ns=round(60_000 * speed), seed=number)
        (trace,) = write_ranks(program, folder / f"w{number}")
        yield from open_side([str(trace)])


def add_windows(history: Path, samples: Iterable[Sample]) -> list[str]:
    """A window for each of them, ten minutes apart."""
    return [
        add_window(history, sample, {"job": "4711", "node": "n1"}, 10**18 + number * PERIOD_NS)
        for number, sample in enumerate(samples)
    ]


def record_windows(folder: Path, history: Path, speeds: list[float]) -> list[str]:
    """A window for each factor on all kernels."""
    return add_windows(history, record_samples(folder, speeds))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("profile")
    return folder / "h", record_windows(folder, folder / "h", [1.0, 1.0, 1.5])


def test_windows_and_what_is_known_of_them(history: tuple[Path, list[str]]) -> None:
    folder, ids = history
    assert is_history(folder)
    windows = read_windows(folder)
    assert windows.get_column("run_id").to_list() == ids
    assert windows.select("job", "node").unique().rows() == [("4711", "n1")]
    first, last = read_values(folder, ids[0]), read_values(folder, ids[2])
    # 16 kernels of 60 µs a step, and the experts' another four.
    assert 1.4 < last["compute_ns"] / first["compute_ns"] < 1.55


def test_stacks_of_several_windows_add_up(history: tuple[Path, list[str]]) -> None:
    folder, ids = history
    each = [read_stacks(folder, [run_id]) for run_id in ids]
    whole, weight = read_stacks(folder, ids)
    assert weight == "gpu_time_ns"
    assert whole.total(weight) == sum(stacks.total(weight) for stacks, _ in each)
    with pytest.raises(MissingDataError, match="no window has stacks"):
        read_stacks(folder, ["0" * 16])


def test_what_changed_between_two(history: tuple[Path, list[str]]) -> None:
    folder, ids = history
    data = compare_windows(folder, ids[:2], ids[2])
    assert data["step"]["ratio"] > 1.2


def test_a_regression_of_three_percent(tmp_path: Path) -> None:
    """Windows differ by 1 %; the change is found within eight windows of ten minutes.

    Only a campaign records each of them.
    """
    dice = np.random.default_rng(4)
    history = tmp_path / "h"
    levels = [1.0] * BEFORE + [CHANGE] * MOST
    speeds = [float(level * dice.normal(1, NOISE)) for level in levels]
    if CAMPAIGNS:
        record_windows(tmp_path, history, speeds)
    else:
        (sample,) = record_samples(tmp_path, [1.0])
        add_windows(history, [scale_sample(sample, speed) for speed in speeds])
    data = describe_series(history, "compute_ns", {"job": "4711"}, "window", 500)
    (change,) = data["changes"]
    assert abs(change["at"] - BEFORE) <= 2
    assert 1.015 < change["ratio"] < 1.045
