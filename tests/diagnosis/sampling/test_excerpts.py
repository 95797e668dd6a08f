"""Causes of long runs: exact totals of all, causes from steps that stand for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.answer.answer import Answer
from sightline.answer.summary import answer_run
from sightline.core.model.run import Run
from sightline.core.model.store import FROM_FACTS
from sightline.core.model.tables import load_table
from sightline.diagnosis import causes
from sightline.diagnosis.causes import find_causes
from sightline.diagnosis.diagnose import diagnose_run
from sightline.diagnosis.sampling.choose import Sample, choose_excerpts
from sightline.opening.excerpt import open_excerpt, read_excerpt
from sightline.timeline.segments import select_repeating
from support.command import sightline as run_command
from support.excerpts import compare_causes
from support.traces import call, kernel, launched, opened, step, write
from synth import kineto, simulate

ROOT = Path(__file__).resolve().parents[3]


def loop(lengths: list[int], *, pause_in: int | None = None, ahead: int = 0) -> list[Any]:
    """Steps of so many µs: three kernels with a wait behind each, and the host idle for a fifth.

    `ahead`: the host launches so many µs before the device begins, and waits for nothing.
    """
    events: list[Any] = []
    at = 0
    for n, length in enumerate(lengths):
        begin = at
        if n == pause_in:
            at += 20_000
        part = length * 4 // 15
        for k in range(3):
            events += launched(at + 10, kernel(f"gemm_{k}", at + 20 + ahead, part - 30))
            if not ahead:
                events += [call("cudaDeviceSynchronize", at + 25, part - 30)]
            at += part
        at = at + length - 3 * part
        events += [step(n, begin, at - begin)]
    return events


def sample_of(run: Run) -> Sample:
    found = choose_excerpts(select_repeating(run), is_small=True)
    assert found is not None
    return found


def test_the_size_from_which_excerpts_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to it, the answer is that of the whole to the byte; of one row more it is sampled."""
    assert causes.MOST_ASKED_WHOLE == 4_000_000
    run = opened(tmp_path, loop([1_000] * 60))
    rows = run.rows("device_ops") + run.rows("host_ops")
    monkeypatch.setattr(causes, "MOST_ASKED_WHOLE", rows)
    below = find_causes(run)
    assert below.sample == {}
    plain = [f.to_dict() for f in below.findings]
    assert json.dumps(plain) == json.dumps([f.to_dict() for f in diagnose_run(run)])
    assert not any("cost_low" in f or "excerpt" in f["where"] for f in plain)
    assert "sample" not in answer_run(run).to_dict()
    monkeypatch.setattr(causes, "MOST_ASKED_WHOLE", rows - 1)
    assert find_causes(run).sample["steps"] == 60
    assert find_causes(run, whole=True).sample == {}
    assert find_causes(run.with_window("step:7")).sample == {}


def test_totals_are_exact_whatever_causes_are_asked_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write(tmp_path, loop([1_000 + 37 * (n % 7) for n in range(60)])))
    whole = sightline.open(path).report()
    monkeypatch.setattr(causes, "MOST_ASKED_WHOLE", 0)
    sampled = sightline.open(path).report()
    assert sampled["sample"]["asked"] < 60
    same = set(whole) - {"findings", "ladder", "unrecorded"}
    assert {name: sampled[name] for name in same} == {name: whole[name] for name in same}
    plain = json.loads(json.dumps(sampled))
    assert Answer.of(plain).to_dict() == plain


def test_what_steps_lose_is_found_from_few_of_them(tmp_path: Path) -> None:
    found = compare_causes([str(write(tmp_path, loop([1_000] * 60)))])
    assert found is not None
    assert (found.whole, found.asked, found.steps) == ("sync-in-step", 14, 60)
    assert found.is_same
    assert found.is_inside


def test_each_regime_is_asked_and_weighs_what_it_lasts(tmp_path: Path) -> None:
    run = opened(tmp_path, loop([1_000] * 40 + [3_000] * 40))
    sample = sample_of(run)
    assert [e.first // 40 for e in sample.excerpts] == [0, 1]
    stands = [e.weight * e.sums[0] / sample.totals[0] for e in sample.excerpts]
    assert stands == pytest.approx([0.25, 0.75], abs=0.02)
    assert sum(e.weight * e.sums[0] for e in sample.excerpts) == pytest.approx(sample.totals[0])


def test_a_pause_that_comes_in_no_other_step_is_asked_and_told_once(tmp_path: Path) -> None:
    """It takes a quarter of the run: without the block around it, the totals are not met."""
    events = loop([1_000] * 60, pause_in=33)
    sample = sample_of(opened(tmp_path, events))
    (slow,) = [e for e in sample.excerpts if e.first <= 33 <= e.last]
    assert slow.kind == "slowest"
    assert slow.weight == pytest.approx(1, abs=0.2)
    found = find_causes(opened(tmp_path, events), most_whole=0).findings
    pauses = [f for f in found if f.rule == "host-late" and not f.abstained]
    assert len(pauses) == 1
    assert pauses[0].cost_ns == pytest.approx(20_000_000, rel=0.25)
    assert found[0].rule == "sync-in-step"
    assert "once_in_step" in pauses[0].where


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (loop([1_000] * 6), "too few steps"),
        (loop([1_000] * 60, ahead=40_000), "launched long before"),
        ([e for e in loop([1_000] * 60) if e["cat"] != "user_annotation"][:100], "no steps"),
    ],
)
def test_what_does_not_repeat_is_asked_as_a_whole(
    tmp_path: Path, events: list[Any], why: str
) -> None:
    run = opened(tmp_path, events)
    assert choose_excerpts(select_repeating(run), is_small=True) is None, why
    assert find_causes(run, most_whole=0).sample == {}


def test_several_ranks_are_asked_as_a_whole(tmp_path: Path) -> None:
    paths = kineto.write(simulate("exposed_communication", steps=12), tmp_path, "2025")
    run = sightline.open(*[str(path) for path in paths])
    assert choose_excerpts(run, is_small=True) is None


def test_an_excerpt_in_memory_has_the_rows_of_one_on_disk(tmp_path: Path) -> None:
    run = opened(tmp_path, loop([1_000] * 20))
    span = (run.table("device_ops").item(9, "start_ns"), run.table("device_ops").item(29, "end_ns"))
    part = open_excerpt(run, span, span[1] - span[0])
    frames = read_excerpt(run.parts[0], span)
    assert {"device_ops", "host_ops"} <= set(frames)
    for name, rows in frames.items():
        if name in FROM_FACTS:
            continue
        assert part.table(name).equals(rows.select(list(load_table(name).schema))), name
    assert "excerpt" in part.table("quality").get_column("kind")
    assert run.rows("device_ops") == 60
    assert part.rows("device_ops") == 21


def test_no_step_of_an_excerpt_is_the_first_one(tmp_path: Path) -> None:
    """The host is late in the first step of a block only: that is none of the program's start."""
    run = opened(tmp_path, loop([1_000] * 60, pause_in=33))
    steps = run.table("host_ops").filter(layer="step").sort("start_ns")
    span = (steps.item(33, "start_ns"), steps.item(40, "end_ns"))
    ops = run.table("device_ops").sort("start_ns")
    begin = ops.filter(ops["end_ns"] <= span[0]).item(-1, "start_ns")
    part = open_excerpt(run, (begin, span[1]), 0)
    rules = set(part.ask("idle_rules").get_column("rule"))
    assert "host-late" in rules
    assert "first-iteration-included" not in rules


def test_the_screen_says_of_how_many_steps_causes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes, "MOST_ASKED_WHOLE", 0)
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    path = write(tmp_path, loop([1_000] * 60))
    shown = run_command("report", path)
    assert "Causes from 14 of 60 steps; totals are exact." in shown.said
    assert "by the spread of 2 excerpts it costs" in shown.said
    assert "Causes from" not in run_command("report", path, "--all").said
    known = json.loads(run_command("report", path, "--json").out)
    first = known["findings"][0]
    assert first["cost_low"] <= first["cost_ns"] <= first["cost_high"]
    markdown = run_command("report", path, "--format", "markdown")
    assert "Causes from 14 of 60 steps" in markdown.said
    found = run_command("findings", path, "--json")
    assert json.loads(found.out)[0]["cost_high"] == first["cost_high"]
    assert "Causes from 14 of 60 steps" in found.err


@pytest.mark.skipif(not os.environ.get("SIGHTLINE_CAMPAIGNS"), reason="takes half an hour")
def test_excerpts_say_what_the_whole_says() -> None:
    command = [sys.executable, ROOT / "scripts" / "excerpts_proof.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["dataloader_starved", "h2d_bound", "sync_every_step"])
def test_a_sample_of_that_proof(tmp_path: Path, name: str) -> None:
    paths = kineto.write(simulate(name, steps=16, seed=3), tmp_path, "2025")
    found = compare_causes([str(path) for path in paths])
    assert found is not None
    assert found.is_same
    assert found.is_inside
