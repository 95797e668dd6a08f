"""sightline verify: claims about recordings whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sightline as package
from compare.programs import Program, write_runs
from support.command import Outcome, sightline

EXAMPLE = Path(__file__).parents[3] / "examples" / "simulated-dataloader.json.gz"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Three runs of a program, and three with a softmax twice as long."""
    folder = tmp_path_factory.mktemp("runs")
    programs = {"base": Program(), "slow": Program().slowed("softmax", 2.0)}
    return {name: write_runs(folder / name, p, 3, name) for name, p in programs.items()}


def _verify(folder: Path, *claims: dict[str, Any], words: tuple[str, ...] = ()) -> Outcome:
    path = folder / "claim.json"
    path.write_text(json.dumps(list(claims)))
    return sightline("verify", path, *words)


def test_changes_are_judged_as_compare_does(runs: dict[str, list[str]], tmp_path: Path) -> None:
    sides = {"before": runs["base"], "after": runs["slow"]}
    words = ("--before", *runs["base"], "--after", *runs["slow"], "--json", "--no-findings")
    compared = json.loads(sightline("compare", *words).out)
    step = compared["step"]
    change = 100 * (step["ratio"] - 1)
    claims = [
        {**sides, "metric": "step_ns", "change_pct": round(change, 1)},
        {**sides, "metric": "step_ns", "change_at_most_pct": 0},
        {**sides, "metric": "step_ns", "change_at_least_pct": 500},
        {**sides, "metric": "kernel:softmax", "change_pct": 100, "within_pct": 5},
        {**sides, "metric": "launches", "change_pct": 0},
        {**sides, "metric": "kernel:no_such_kernel", "change_pct": 0},
    ]
    outcome = _verify(tmp_path, *claims, words=("--json",))
    answers = json.loads(outcome.out)
    words = [answer["answer"] for answer in answers]
    assert words == ["yes", "no", "no", "yes", "yes", "cannot be said"], outcome.out
    measured = answers[0]["measured"]
    assert measured["low"] == pytest.approx(100 * (step["low"] - 1))
    assert measured["high"] == pytest.approx(100 * (step["high"] - 1))
    assert outcome.code == 1


def test_one_run_a_side_leaves_open_what_runs_differ_by(
    runs: dict[str, list[str]], tmp_path: Path
) -> None:
    """The same recording twice: no large change, and of a small one nobody knows."""
    same = {"before": runs["base"][0], "after": runs["base"][0], "metric": "step_ns"}
    assert _verify(tmp_path, {**same, "change_pct": -50}).code == 1
    small = _verify(tmp_path, {**same, "change_pct": -3})
    assert small.code == 2
    assert "CANNOT BE SAID" in small.out
    kernel = {**same, "after": runs["slow"][0], "metric": "kernel:softmax", "change_pct": 100}
    assert "one run a side" in _verify(tmp_path, kernel).said


def test_claims_about_one_recording(tmp_path: Path) -> None:
    findings = package.findings(package.open(str(EXAMPLE)))
    first = findings[0]
    of = {"recording": str(EXAMPLE)}
    true = [
        {**of, "finding": first.rule},
        {**of, "finding": first.rule, "column": "gain_pct", "is": round(first.gain_pct or 0, 1)},
        {**of, "sql": "SELECT count(*) FROM device_ops WHERE kind = 'kernel'", "at_least": 1},
        {
            **of,
            "analysis": "breakdown",
            "column": "idle_pct",
            "where": {"device_id": 0},
            "at_most": 99,
        },
        {**of, "kernel": ".", "column": "kernel_pct", "is": 100},
    ]
    outcome = _verify(tmp_path, *true)
    assert outcome.code == 0, outcome.out
    assert outcome.out.count("YES") == len(true)
    absent = "exposed-communication"
    assert absent not in {f.rule for f in findings}
    assert _verify(tmp_path, {**of, "finding": absent}).code == 1
    unjudged = next(f for f in findings if f.abstained)
    outcome = _verify(tmp_path, {**of, "finding": unjudged.rule}, words=("--json",))
    assert outcome.code == 2
    assert json.loads(outcome.out)[0]["why"] == unjudged.reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"finding": "no-such-rule"},
        {"finding": "dataloader-starved", "column": "title", "is": 1},
        {"kernel": "(", "is": 1},
        {"kernel": ".", "column": "mean_ns", "is": 1},
        {"analysis": "breakdown", "column": "no_such", "is": 1},
        {"analysis": "kernels", "column": "total_ns", "is": 1},  # several rows
        {"sql": "SELECT name FROM device_ops LIMIT 1", "is": 1},
        {"sql": "SELECT 1, 2", "is": 1},
        {"sql": "SELECT * FROM read_text('/etc/hostname')", "is": 1},
    ],
)
def test_a_wrong_question_is_an_error_and_no_answer(wrong: dict[str, Any], tmp_path: Path) -> None:
    outcome = _verify(tmp_path, {"recording": str(EXAMPLE), **wrong})
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("sightline: ")


def test_the_screen_fits(runs: dict[str, list[str]], tmp_path: Path) -> None:
    """At 80 columns, whatever a claim says of itself."""
    text = "step time\x1b[2J\n\nfell " + "by twelve percent " * 30
    claim = {"claim": text, "recording": str(EXAMPLE), "kernel": ".", "is": 1}
    out = _verify(tmp_path, claim).out
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
