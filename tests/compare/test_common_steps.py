"""Loops that nothing marks: steps that one side is unsure of, and the other has, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.compare.comparison import compare_samples
from sightline.compare.sample import Sample, take_sample
from support.traces import Event, kernel, launch, opened

KERNEL_US = 400


def _sample(folder: Path, *, turns: int, at_once: bool, blocks: int = 20) -> Sample:
    """Two kernels a turn, one after the other on one stream, or beside each other on two."""
    folder.mkdir()
    events: list[Event] = []
    turn = KERNEL_US if at_once else 2 * KERNEL_US
    shape: dict[str, Any] = {"grid": [blocks, 1, 1], "block": [256, 1, 1]}
    for n in range(turns):
        for k, name in enumerate(("solveLeft", "solveRight")):
            number = 2 * n + k + 1
            start = 100 + n * turn + (0 if at_once else k * KERNEL_US)
            events.append(launch(10 * number, 5, number))
            stream = 13 + (k if at_once else 0)
            events.append(kernel(name, start, KERNEL_US - 1, number, stream=stream, **shape))
    return take_sample(opened(folder, events), folder.name)


def test_recordings_of_unequal_length_are_compared_by_their_turns(tmp_path: Path) -> None:
    before = _sample(tmp_path / "before", turns=100, at_once=False)
    after = _sample(tmp_path / "after", turns=180, at_once=True)
    assert before.source is None
    data = compare_samples([before], [after])
    step = data["step"]
    assert step["after_ns"] / step["before_ns"] == pytest.approx(0.5, abs=0.01)
    assert data["verdict"]["word"] == "faster"


def test_turns_of_other_work_are_no_common_steps(tmp_path: Path) -> None:
    before = _sample(tmp_path / "before", turns=100, at_once=False)
    after = _sample(tmp_path / "after", turns=180, at_once=True, blocks=10)
    data = compare_samples([before], [after])
    assert data["sides"]["before"][0]["source"] is None
    assert data["step"]["before_ns"] > 50 * KERNEL_US * 1000
