"""sightline ranks: who costs the job how much, at 80 columns and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import sightline
from support.many_ranks import HOST, Cause, Program, write_ranks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    list(write_ranks(Program(32, steps=4, causes=(Cause(HOST, 21, 4e5),), offset_ns=5e7), folder))
    return folder


def test_the_screen(folder: Path) -> None:
    lines = sightline("ranks", folder).out.splitlines()
    assert lines[0] == "32 ranks · 512 communication kernels, 512 matched"
    assert lines[1].startswith("clocks up to ")
    assert "1  rank 21: host late, persistent (4 of 4 steps)" in lines
    assert max(map(len, lines)) <= 80
    table = lines.index(next(line for line in lines if line.startswith("Beyond its peers")))
    assert lines[table + 1].split()[:2] == ["rank", "21"]
    labels = [line.split()[0] for line in lines if line.startswith("  ")]
    assert "20-21" in labels
    assert "21" in labels


def test_as_data(folder: Path) -> None:
    data = json.loads(sightline("ranks", folder, "--json").out)
    assert data["stragglers"][0]["ranks"] == [21]
    assert sum(piece["ns"] for piece in data["critical_path"]) == data["length_ns"]
    assert len(data["excess"]) == data["ranks"] == 32
    assert data["lost"] == []
