"""sightline ranks: who costs the job how much, at 80 columns and as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import sightline
from support.many_ranks import HOST, Cause, Program, write_ranks
from support.pipelines import ONE_F_ONE_B, Pipeline, write_pipeline


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


def test_the_screen_of_a_pipeline(tmp_path: Path) -> None:
    of = Pipeline(4, 2, 4, ONE_F_ONE_B, slow_stage=2, slow=0.5)
    list(write_pipeline(of, tmp_path))
    lines = sightline("ranks", tmp_path).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("× less" in line for line in lines)
    assert any("without these waits the job would take" in line for line in lines)
    assert "2  ranks 4, 5: slow stage, persistent (3 of 3 steps)" in lines
    table = lines.index("Pipeline of 4 stages, 1F1B, 4 micro-batches a step")
    assert lines[table + 1] == "  this schedule leaves 42.9 % of a step empty at best"
    assert [line.split()[:2] for line in lines[table + 3 : table + 7]] == [
        [str(stage), "2"] for stage in range(4)
    ]


def test_as_data(folder: Path) -> None:
    data = json.loads(sightline("ranks", folder, "--json").out)
    assert data["stragglers"][0]["ranks"] == [21]
    assert sum(piece["ns"] for piece in data["critical_path"]) == data["length_ns"]
    assert len(data["excess"]) == data["ranks"] == 32
    assert data["lost"] == []
