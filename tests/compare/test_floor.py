"""A floor is measured, kept, read and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compare.programs import Program, write_runs
from sightline.compare.floor import StoredFloor, calibrate_floor, check_floor, read_floor
from sightline.compare.sides import open_side
from sightline.compare.statistics import Floor
from sightline.errors import InputError, RequestError


def test_floor_is_what_runs_differ_by(tmp_path: Path) -> None:
    """Eight runs off by 2 %: between 1 and 3.5 %, as by luck (chi-square of 7, 99.9 %)."""
    program = Program(run_noise=0.02, step_noise=0.001)
    found = calibrate_floor(open_side(write_runs(tmp_path / "runs", program, 8, "floor")))
    assert 1.0 < found["spread_pct"] < 3.5
    (tmp_path / "floor.json").write_text(json.dumps(found))
    stored = read_floor(tmp_path / "floor.json")
    assert stored == StoredFloor(Floor(found["variance"], 7), ("NVIDIA A100-SXM4-80GB",))


def test_two_runs_are_too_few(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="a floor needs 3 runs"):
        calibrate_floor(open_side(write_runs(tmp_path, Program(), 2, "few")))


def test_runs_must_be_alike(tmp_path: Path) -> None:
    paths = write_runs(tmp_path / "a", Program(), 2, "a")
    paths += write_runs(tmp_path / "b", Program(world=4), 1, "b")
    with pytest.raises(RequestError, match="are not runs of one program"):
        calibrate_floor(open_side(paths))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": "sightline-floor/1"}', "\x00", '{"schema": "sightline-floor/1", '
     '"variance": NaN, "freedom": 3, "devices": []}', '{"schema": "sightline-floor/1", '
     '"variance": 1e-4, "freedom": 0, "devices": []}'],
)  # fmt: skip
def test_no_floor(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(InputError, match="is not a floor"):
        read_floor(tmp_path / "f")


def test_floor_of_another_machine(tmp_path: Path) -> None:
    samples = open_side(write_runs(tmp_path, Program(), 1, "one"))
    with pytest.raises(RequestError, match="another machine"):
        check_floor(StoredFloor(Floor(1e-4, 3), ("NVIDIA H100",)), samples)
    check_floor(StoredFloor(Floor(1e-4, 3), ("NVIDIA A100-SXM4-80GB",)), samples)
