"""sightline history, as a person and a pipeline call it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from compare.programs import Program, scale_sample, write_runs
from sightline.compare.sides import open_side
from sightline.history.history import add_run
from support.command import sightline

# What they share is made once.
pytestmark = pytest.mark.xdist_group("history")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty commits of two runs, from the thirteenth on with a softmax twice as long.

    Each run is off by a factor of its own; both programs are recorded once.
    """
    place = tmp_path_factory.mktemp("history")
    program = Program(steps=6, run_noise=0.0, step_noise=0.002)
    usual, slow = (
        open_side(write_runs(place / f"{factor}", program.slowed("softmax", factor), 1, "run"))[0]
        for factor in (1.0, 2.0)
    )
    dice = random.Random("runs")
    for number in range(20):
        for _ in range(2):
            sample = scale_sample(slow if number >= 12 else usual, dice.gauss(1, 0.01))
            added = 1_700_000_000_000_000_000 + number * 86_400_000_000_000
            add_run(place / "kept", sample, {"commit": f"c{number:02}"}, added)
    return place / "kept"


def test_show_names_the_commits(folder: Path) -> None:
    done = sightline("history", "show", "step_ns", "--history", folder)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:2] == ["step_ns", "20 points, 40 runs, 2023-11-14 to 2023-12-03"]
    (told,) = [line for line in lines if ".." in line]
    assert "c11..c12" in told
    assert told.strip().startswith("+")
    assert all(len(line) <= 80 for line in lines)
    assert sum(line.count("•") for line in lines) == 20


@pytest.mark.pages
def test_show_as_data_and_page(folder: Path, tmp_path: Path) -> None:
    done = sightline("history", "show", "kernel:softmax", "--history", folder, "--json")
    data = json.loads(done.out)
    assert data["schema"] == "sightline-history/1"
    (change,) = data["changes"]
    assert (change["before"], change["after"], change["went_away"]) == ("c11", "c12", False)
    assert change["ratio"] == pytest.approx(2, rel=0.03)
    page = tmp_path / "h.html"
    assert sightline("history", "show", "step_ns", "--history", folder, "-o", page).code == 0
    assert page.stat().st_size > 10_000


def test_gate(folder: Path) -> None:
    shown = ("history", "show", "step_ns", "--history", folder, "--fail-on-change")
    assert sightline(*shown).code == 1
    assert sightline(*shown, "--last", "8").code == 0


def test_add_and_list(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, Program(), 1, "run")
    kept = tmp_path / "fingerprint.json"
    sightline("fingerprint", path, "-o", kept)
    place = tmp_path / "h"
    for source, name in ((path, "a"), (kept, "b")):
        done = sightline(
            *("history", "add", source, "--label", f"commit={name}", "--history", place),
            *("--time", "2026-01-31"),
        )
        assert done.code == 0, done.err
    listed = sightline("history", "list", "--history", place).out.splitlines()
    assert sorted(listed) == [
        "2026-01-31  fingerprint.json  commit=b  NVIDIA A100-SXM4-80GB",
        "2026-01-31  run0.json  commit=a  NVIDIA A100-SXM4-80GB",
    ]
    rows = json.loads(sightline("history", "list", "--history", place, "--json").out)
    assert {row["labels"]["commit"] for row in rows} == {"a", "b"}
    assert "step_ns" in sightline("history", "list", "--metrics", "--history", place).out
    few = sightline("history", "show", "step_ns", "--history", place).out
    assert "Fewer than 12 points: not searched for changes" in few


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "step_ns", "--history", "/nowhere"], "there is no history yet"),
        (["add", "x", "--label", "commit"], "'commit' is not a label"),
        (["add", "x", "--time", "yesterday"], "'yesterday' is not a time"),
        (["show", "step_ns", "--last", "0"], "--last 0 is not a valid value"),
        (["bisect", "--good", "a", "--bad", "b"], "there is no program to run"),
    ],
)
def test_wrong_requests(words: list[str], said: str) -> None:
    done = sightline("history", *words)
    assert done.code == 2
    assert said in " ".join(done.err.split())


@pytest.mark.pages
def test_hostile_labels_are_text(tmp_path: Path) -> None:
    (path,) = write_runs(tmp_path, Program(), 1, "run")
    evil = "\x1b]52;c;x\x07</script><b>"
    place = tmp_path / "h"
    sightline("history", "add", path, "--label", f"commit={evil}", "--history", place)
    page = tmp_path / "h.html"
    done = sightline("history", "show", "step_ns", "--history", place, "-o", page)
    assert done.code == 0
    assert b"<b>" not in page.read_bytes()
    assert "\x1b" not in sightline("history", "list", "--history", place).out
