"""Captures are kept within bounds: so many, so large, the oldest goes first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightline.capture.shelf import Shelf, measure_folder
from sightline.errors import RequestError


def fill(shelf: Shelf, number: int, size: int) -> Path:
    place = shelf.make(f"{number:016x}")
    (place / "run.sightline" / "trace").write_bytes(b"x" * size)
    return place


def test_the_oldest_goes_first(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", 10_000, 3, least_free=0)
    made = [fill(shelf, number, 100) for number in (3, 1, 2, 0)]
    assert [p.exists() for p in made] == [False, True, True, True]


def test_no_more_bytes_than_allowed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", 2500, 100, least_free=0)
    made = [fill(shelf, number, 1000) for number in range(4)]
    assert [p.exists() for p in made] == [False, True, True, True]  # room is made before the next
    shelf.make_room()
    assert sum(map(measure_folder, shelf.list_folders())) <= 2500


def test_what_is_not_ours_is_left(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", 0, 1, least_free=0)
    (shelf.folder / "notes").mkdir()
    shelf.make_room()
    assert (shelf.folder / "notes").exists()
    assert shelf.find("../s") is None
    assert shelf.find("notes") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_another_user(tmp_path: Path) -> None:
    os.chown(tmp_path, 12_345, -1)
    with pytest.raises(RequestError, match="cannot keep captures"):
        Shelf(tmp_path, 1, 1)
