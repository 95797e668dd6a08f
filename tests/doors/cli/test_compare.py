"""sightline compare, as a person and a pipeline call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compare.programs import Program, write_runs
from support.command import sightline
from support.pages import ROOT


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Three runs of a program, three with a softmax twice as long, three of the program again."""
    folder = tmp_path_factory.mktemp("runs")
    slow = Program().slowed("softmax", 2.0)
    programs = {"base": Program(), "slow": slow, "same": Program()}
    return {name: write_runs(folder / name, p, 3, name) for name, p in programs.items()}


def test_several_runs_a_side(runs: dict[str, list[str]]) -> None:
    done = sightline("compare", "--before", *runs["base"], "--after", *runs["slow"])
    assert done.code == 0
    assert done.out.splitlines()[0] == "base/run0.json and 2 more → slow/run0.json and 2 more"
    assert "Slower by " in done.out
    first = done.out.split("What explains it\n")[1].splitlines()[0]
    assert "softmax" in first
    assert first.endswith("real")
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_one_run_a_side_sees_large_changes(runs: dict[str, list[str]]) -> None:
    done = sightline("compare", runs["base"][0], runs["slow"][0], "--no-findings")
    assert "Slower by 18.9 %" in done.out
    assert "One run of each version cannot show changes under about 13.1 %" in " ".join(
        done.out.split()
    )


def test_a_floor_decides_it(runs: dict[str, list[str]], tmp_path: Path) -> None:
    floor = tmp_path / "floor.json"
    made = sightline("compare", "--calibrate", floor, *runs["base"], *runs["same"])
    assert "6 runs vary by" in made.err
    sides = {name: ("compare", runs["base"][0], runs[name][0]) for name in ("slow", "same")}
    for name, word in (("slow", "Slower by"), ("same", "No measurable change")):
        assert word in sightline(*sides[name], "--floor", floor, "--no-findings").out


def test_data(runs: dict[str, list[str]]) -> None:
    done = sightline("compare", "--before", *runs["base"], "--after", *runs["slow"], "--json")
    data = json.loads(done.out)
    assert data["schema"] == "sightline-compare/1"
    assert data["verdict"]["word"] == "slower"
    assert sum(p["delta_ns"] for p in data["pairs"]) == data["step"]["delta_ns"]
    assert {f["status"] for f in data["findings"]} <= {
        "fixed", "new", "still there", "not judged before", "not judged after",
    }  # fmt: skip


def test_markdown_for_a_pull_request(runs: dict[str, list[str]], tmp_path: Path) -> None:
    target = tmp_path / "pr.md"
    sides = ("--before", *runs["base"], "--after", *runs["slow"])
    assert sightline("compare", *sides, "-o", target).code == 0
    text = target.read_text()
    assert text.startswith("## Slower by ")
    assert "| **step** |" in text
    assert "| softmax |" in text


@pytest.mark.parametrize(
    ("after", "condition", "code"),
    [
        ("slow", "step_ns > 3%", 1),
        ("same", "step_ns > 3%", 0),
        ("slow", "kernel:softmax > 50us", 1),
        ("slow", "kernel:gemm > 1%", 0),
        ("slow", "launches > 0", 0),
    ],
)
def test_gate(runs: dict[str, list[str]], after: str, condition: str, code: int) -> None:
    sides = ("--before", *runs["base"], "--after", *runs[after])
    done = sightline("compare", *sides, "--no-findings", "--fail-on", condition)
    assert done.code == code
    assert ("gate failed" in done.err) == bool(code)


def test_self_test(runs: dict[str, list[str]], tmp_path: Path) -> None:
    (long,) = write_runs(tmp_path, Program(steps=41), 1, "long")
    done = sightline("compare", "--self-test", long, runs["base"][0])
    first, second = done.out.splitlines()
    assert "40 steps" in first
    assert "no difference, as it should be" in first
    assert "11 steps are too few, 20 are needed" in second


def test_a_trend(runs: dict[str, list[str]]) -> None:
    given = (runs["base"][0], runs["slow"][0], runs["slow"][1])
    data = json.loads(sightline("compare", *given, "--json").out)
    assert data["schema"] == "sightline-trend/1"
    first, second, third = data["runs"]
    assert (first["since_last"], first["verdict"]) == (None, None)
    assert second["since_last"] == second["since_first"] == second["step_ns"] / first["step_ns"]
    assert third["since_last"] == third["step_ns"] / second["step_ns"]
    assert (second["verdict"]["word"], second["explains"]["label"]) == ("slower", "softmax")
    assert all(abs(sum(r["parts"].values()) - r["step_ns"]) < 1 for r in data["runs"])
    lines = sightline("compare", *given).out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("base/run0.json")
    assert "run 2: slower; the largest change is +1" in lines[5]
    assert lines[5].endswith("in softmax")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.json"], "compare takes two recordings, and one was given"),
        ([], "compare takes two recordings, and none was given"),
        (["a", "b", "c", "--fail-on", "slower"], "a gate needs two sides"),
        (["a", "b", "c", "-o", "x.html"], "a trend has no format 'html'"),
        (["--before", "a"], "one side is missing"),
        (["a", "--before", "b", "--after", "c"], "a path belongs to no side"),
        (["a", "b", "--fail-on", "x"], "is not a condition"),
        (["a", "b", "--format", "x"], "there is no format 'x'"),
        (["a", "b", "-o", "x.pdf"], "cannot write x.pdf"),
        (["/nowhere/a.json", "/nowhere/b.json"], "/nowhere/a.json"),
        (["--self-test"], "no recording is named"),
    ],
)
def test_wrong_requests(words: list[str], said: str) -> None:
    done = sightline("compare", *words)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_no_output_over_an_input(runs: dict[str, list[str]]) -> None:
    done = sightline("compare", runs["base"][0], runs["slow"][0], "-o", runs["base"][0])
    assert done.code == 2
    assert "it is a recording" in " ".join(done.err.split())


def test_other_commands_do_not_load_scipy() -> None:
    """It takes as long to load as a small recording takes to be diagnosed."""
    code = (
        "import sys; from sightline.doors.cli.main import main\n"
        "assert main(['report', 'examples/simulated-dataloader.json.gz', '--json']) == 0\n"
        "sys.exit('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL)
    assert done.returncode == 0
