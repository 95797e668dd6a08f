"""What is looked at before any number is believed, and what fails closed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compare.programs import Program, record, write_runs
from sightline.compare.comparability import Check, check_matched, check_sides
from sightline.compare.comparison import compare_samples
from sightline.compare.fingerprint import parse_fingerprint, write_fingerprint
from sightline.compare.sample import Sample, take_sample
from sightline.compare.sides import open_side
from sightline.core.model import usage_metrics as m
from sightline.session import Session
from sightline.views.comparison.comparison import render_comparison
from support.as_nsys import nsys
from support.clocks import ten_kernels
from support.stepped import MS, write_program
from support.traces import host, kernel, launched, op, opened, step
from synth import kineto, scenarios


def _sample(folder: Path, name: str, program: Program, **header: Any) -> Sample:
    events = record(program, random.Random(name))
    return take_sample(opened(folder, events, f"{name}.json", **header), name)


def _find(name: str, before: Sample, after: Sample) -> Check:
    return next(c for c in check_sides([before], [after]) if c.check == name)


def _gpu(name: str) -> dict[str, Any]:
    return {"deviceProperties": [{"id": 0, "name": name}]}


def test_another_gpu_blocks(tmp_path: Path) -> None:
    one = _sample(tmp_path, "one", Program(), **_gpu("NVIDIA A100"))
    other = _sample(tmp_path, "other", Program(), **_gpu("NVIDIA H100"))
    check = _find("GPU", one, other)
    assert (check.effect, check.text) == (
        "blocks", "before ran on NVIDIA A100, after on NVIDIA H100",
    )  # fmt: skip
    assert _find("GPU", one, one).effect == "ok"


def test_both_profilers_of_one_program(tmp_path: Path) -> None:
    """The same simulated program by PyTorch's profiler and Nsight Systems: nothing changed."""
    program = scenarios.dataloader_starved()
    (traced, *_) = kineto.write(program, tmp_path, dialect="2025")
    exported = nsys(program, tmp_path / "run.sqlite")
    data = compare_samples(open_side([str(traced)]), open_side([str(exported)]))
    assert data["verdict"]["word"] == "no change"
    assert {p["delta_ns"] for p in data["pairs"] if p["part"] != "idle"} == {0}
    assert {p["grade"] for p in data["pairs"] if p["part"] != "idle"} <= {"exact", "spelling"}
    limits = [check["text"] for check in data["checks"] if check["effect"] == "limits"]
    assert any("different profilers" in text for text in limits)


def test_more_ranks_block(tmp_path: Path) -> None:
    (one,) = open_side(write_runs(tmp_path / "1", Program(world=1), 1, "a"))
    (other,) = open_side(write_runs(tmp_path / "4", Program(world=4), 1, "b"))
    assert _find("ranks", one, other).text == "the job had 1 ranks before and 4 after"


def test_one_side_without_a_gpu_blocks(tmp_path: Path) -> None:
    one = _sample(tmp_path, "one", Program())
    other = take_sample(opened(tmp_path, [op("aten::mm", 0, 50)], "cpu.json"), "cpu")
    data = compare_samples([one], [other])
    assert data["verdict"]["word"] == "not comparable"
    assert data["verdict"]["reasons"][0] == "one side has a GPU's timeline, the other has none"
    assert sum(row["delta_ns"] for row in data["waterfall"]) == data["step"]["delta_ns"]


def test_steps_on_one_side_only_block(tmp_path: Path) -> None:
    one = _sample(tmp_path, "one", Program())
    other = take_sample(opened(tmp_path, [kernel("gemm_tn", 0, 50)], "whole.json"), "whole")
    assert _find("steps", one, other).effect == "blocks"


@pytest.mark.parametrize(
    ("mhz", "effect"), [(1980, "ok"), (1950, "limits"), (1742, "blocks"), (2200, "blocks")]
)
def test_clocks(tmp_path: Path, mhz: int, effect: str) -> None:
    """1742 MHz is 12 % below 1980; with so much lower a clock the same kernels are faster."""
    one = take_sample(ten_kernels(tmp_path / "one", 1980), "one")
    other = take_sample(ten_kernels(tmp_path / "other", mhz), "other")
    assert _find("clock", one, other).effect == effect
    equal = compare_samples([one], [other])["equal_clock"]
    assert equal["ratio"] == pytest.approx(mhz / 1980)


def test_clocks_that_nobody_sampled_limit(tmp_path: Path) -> None:
    one = _sample(tmp_path, "one", Program())
    assert _find("clock", one, one).effect == "limits"


@pytest.mark.parametrize(
    ("same", "effect"), [(10, "ok"), (8, "limits"), (4, "blocks")]
)  # of ten calls a step
def test_shapes(tmp_path: Path, same: int, effect: str) -> None:
    def sample(name: str, batch: int, calls: int) -> Sample:
        shapes = [[32, 64]] * calls + [[batch, 64]] * (10 - calls)
        ops = [op("aten::mm", 10 * i, 5, **{"Input Dims": [s]}) for i, s in enumerate(shapes)]
        return take_sample(opened(tmp_path, [*ops, kernel("k", 0, 100)], f"{name}.json"), name)

    assert _find("shapes", sample("one", 32, 10), sample("other", 64, same)).effect == effect


def test_options_of_the_profiler_limit(tmp_path: Path) -> None:
    frame = host("python_function", "train.py(3): main", 0, 900, **{"Python id": 1})
    events = record(Program(), random.Random("stacks"))
    one = take_sample(opened(tmp_path, [*events, frame]), "one")
    other = _sample(tmp_path, "other", Program())
    check = _find("Python stacks", one, other)
    assert (check.effect, check.text) == (
        "limits", "Python stacks were recorded before only, which adds to its host time",
    )  # fmt: skip


def test_what_was_launched_before_the_recording_is_left_out(tmp_path: Path) -> None:
    """Two kernels without a launch, then one with its own: only that one is compared."""
    events = [kernel("k", 0, 100), kernel("k", 100, 100), *launched(150, kernel("k", 200, 70))]
    sample = take_sample(opened(tmp_path, events), "late")
    assert (sample.left_out, sample.whole_ns) == (2, 70_000)
    assert "2 operations launched before" in _find("left out", sample, sample).text


@pytest.mark.parametrize(
    ("matched", "effect"),
    [
        ((95, 95), "ok"),
        ((95, 80), "limits"),
        ((30, 99), "limits"),  # a fix took most of it away
        ((75, 5), "limits"),  # or does the same by one operation of another name
        ((40, 40), "blocks"),
    ],
)
def test_hardly_the_same_program(matched: tuple[int, int], effect: str) -> None:
    assert check_matched(*matched, (100, 100)).effect == effect


def test_same_program_is_comparable(tmp_path: Path) -> None:
    one, other = (_sample(tmp_path, n, replace(Program(), steps=14)) for n in ("one", "other"))
    assert not [c for c in check_sides([one], [other]) if c.effect == "blocks"]


def test_a_hole_in_the_record_is_not_fewer_launches(tmp_path: Path) -> None:
    """Kernels of 20 of 60 launches were lost: what a step launches is unknown, not less."""
    events = [
        event for n in range(60) for event in launched(100 * n, kernel("gemm", 100 * n + 20, 50))
    ]
    steps = [step(n, 1500 * n, 1500) for n in range(4)]
    lost = [e for e in events if not (e["cat"] == "kernel" and 2000 <= e["ts"] < 4000)]
    sides = [
        take_sample(opened(tmp_path, [*steps, *some], f"{len(some)}.json"), "side")
        for some in (events, lost)
    ]
    found = compare_samples(sides[:1], sides[1:])
    check = next(c for c in found["checks"] if c["check"] == "lost_kernels")
    assert "launches are not comparable" in check["text"]
    assert "launches" not in {row["metric"] for row in found["metrics"]}
    said = render_comparison(found).plain
    assert "kernels were lost" in said
    assert "What explains it" not in said
    whole = compare_samples(sides[:1], sides[:1])
    assert "launches" in {row["metric"] for row in whole["metrics"]}


def _queue(folder: Path, queued_ns: int) -> Sample:
    """Steps of 10 ms, of which the thread waits so long for a CPU."""
    rises = {m.THREAD_CPU: 10 * MS - queued_ns, m.THREAD_QUEUED: queued_ns, m.PROCESS_CPU: 5 * MS}
    run = write_program(folder, step_ns=10 * MS, rises=rises, operators=[("aten::mm", 0, 6 * MS)])
    return take_sample(Session.of(run), folder.name)


@pytest.mark.parametrize("is_fingerprint", [False, True])
def test_a_machine_that_others_use_is_said(tmp_path: Path, is_fingerprint: bool) -> None:
    busy, alone = _queue(tmp_path / "busy", 4 * MS), _queue(tmp_path / "alone", 50_000)
    if is_fingerprint:
        busy = parse_fingerprint(write_fingerprint(busy), "busy")
    check = _find("CPUs", busy, alone)
    assert check.effect == "limits"
    assert check.text.startswith(
        "the main thread had no CPU for 40.0 % of its time before and 0.5 % of its time after: "
    )
    assert (check.before, check.after) == pytest.approx((40, 0.5))
    assert not [c for c in check_sides([alone], [alone]) if c.check == "CPUs"]
