"""A kernel in two launch shapes, of which one is noise and the other became slower."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sightline.compare.comparison import compare_samples
from sightline.compare.sample import Sample
from sightline.compare.sides import open_side
from sightline.views.comparison.comparison import explain_shapes, render_comparison
from support.traces import kernel, step, write

SMALL, LARGE = [1, 1, 1], [1024, 1, 1]


def _record(folder: Path, large_us: float, dice: random.Random, runs: int) -> list[Sample]:
    """Each step a small launch of 40 µs ± 25 %, and a large one that varies by 0.3 %."""
    folder.mkdir()
    paths = []
    for number in range(runs):
        events, small, large = [], dice.gauss(1, 0.25), dice.gauss(1, 0.003)
        for at in range(12):
            lengths = (40 * small * dice.gauss(1, 0.05), large_us * large * dice.gauss(1, 0.002))
            events.append(step(at, 300 * at, 300))
            for grid, begin, length in zip((SMALL, LARGE), (0, 120), lengths, strict=True):
                shape = {"grid": grid, "block": [256, 1, 1]}
                start = 300 * at + begin
                events.append(kernel("gemm", start, round(max(length, 1), 3), **shape))
        paths.append(str(write(folder, events, f"r{number}.json")))
    return open_side(paths)


def test_the_shape_that_changed_is_named(tmp_path: Path) -> None:
    """3 % of the large launch are 3 µs, less than the small one's 10 µs from run to run."""
    dice = random.Random(1)
    sides = [_record(tmp_path / str(us), us, dice, 4) for us in (100.0, 103.0)]
    data = compare_samples(*sides)
    (pair,) = [p for p in data["pairs"] if p["label"] == "gemm"]
    assert pair["false_discovery_rate"] > 0.05
    shapes = {shape["shape"]: shape for shape in pair["shapes"]}
    small, large = (shapes[f"{n}×1×1 blocks of 256×1×1"] for n in (1, 1024))
    assert small["false_discovery_rate"] > 0.05
    assert large["false_discovery_rate"] < 0.05
    assert large["ratio"] == pytest.approx(1.03, abs=0.01)
    told = explain_shapes(pair)
    assert told is not None
    assert told.startswith("1 of 2 launch shapes changed; most 1024×1×1 blocks of 256×1×1: ")
    assert told.endswith("real")
    assert "1 of 2 launch shapes changed" in render_comparison(data).plain


@pytest.mark.campaign
def test_flat_shapes_are_flat(tmp_path: Path) -> None:
    """Of 8 pairs of equal programs, 16 shapes, so many by luck (three sigma of 5 %: 3.4)."""
    dice = random.Random(2)
    alarms = 0
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        sides = [_record(folder / side, 100.0, dice, 3) for side in ("a", "b")]
        (pair,) = [p for p in compare_samples(*sides)["pairs"] if p["label"] == "gemm"]
        alarms += sum(shape["p_value"] < 0.05 for shape in pair["shapes"])
    assert alarms <= 3


def test_one_shape_says_nothing(tmp_path: Path) -> None:
    events = [e for i in range(12) for e in (step(i, 100 * i, 100), kernel("k", 100 * i, 40))]
    path = str(write(tmp_path, events))
    data = compare_samples(open_side([path]), open_side([path]))
    assert all(pair["shapes"] == [] for pair in data["pairs"])
