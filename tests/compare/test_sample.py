"""What a run brings: its steps without the first, and what all of them are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from compare.programs import Program
from sightline.compare.sample import take_sample
from sightline.errors import MissingDataError
from support.profiles import PY_SPY, write_profile
from support.traces import host, kernel, launched, op, opened, opened_ranks, step


def test_steps_and_what_they_are_made_of(tmp_path: Path) -> None:
    """Steps of 100, 110 and 90 µs from 100 on; the first, from 0, is left out."""
    edges = [(0, 100), (100, 100), (200, 110), (310, 90)]
    events = [step(i, at, length) for i, (at, length) in enumerate(edges)]
    events += [kernel("k", at, 40) for at, _ in edges] + [kernel("m", 245, 30)]
    sample = take_sample(opened(tmp_path, events), "run")
    assert sample.steps == (100_000, 110_000, 90_000)
    assert (sample.count, sample.whole_ns, sample.source) == (3, 300_000, "marks")
    leaves = sample.leaves.select("part", "name", "instances", "own_ns").rows()
    assert sorted(leaves) == [
        ("compute", "k", 3, 120_000), ("compute", "m", 1, 30_000), ("idle", "unknown", 4, 150_000),
    ]  # fmt: skip
    assert sample.series.select("step", "own_ns").sort("step", "own_ns").rows() == [
        (0, 40_000), (1, 30_000), (1, 40_000), (2, 40_000),
    ]  # fmt: skip


def test_one_step_is_a_whole_recording(tmp_path: Path) -> None:
    """What the device did after the step's mark ended belongs to it."""
    sample = take_sample(opened(tmp_path, [step(1, 0, 50), kernel("k", 20, 70)]), "run")
    assert (sample.steps, sample.source) == ((70_000,), None)


def test_ranks_are_averaged(tmp_path: Path) -> None:
    """Two ranks, two steps each: the second takes 120 µs on the one, 140 µs on the other."""
    ranks = [
        [step(0, 0, 100), step(1, 100, last), kernel("k", 0, 100 + last)] for last in (120, 140)
    ]
    sample = take_sample(opened_ranks(tmp_path, *ranks), "run")
    assert sample.steps == (130_000,)
    assert (sample.count, sample.whole_ns, sample.step_ns) == (2, 260_000, 130_000)


def test_low_confidence_is_no_step(tmp_path: Path) -> None:
    """Kernels that repeat, and nothing that programs do once a step: it may be layers."""
    events = [kernel("ab"[i % 2], 10 * i, 10) for i in range(20)]
    run = opened(tmp_path, events)
    assert take_sample(run, "run").source is None
    asked = take_sample(run.with_window("steady"), "run")
    assert (asked.source, asked.steps[:2]) == ("kernel order", (20_000, 20_000))


def test_a_chosen_window_is_one_piece(tmp_path: Path) -> None:
    events = [step(i, 100 * i, 100) for i in range(4)] + [kernel("k", 0, 400)]
    sample = take_sample(opened(tmp_path, events).with_window("50us..150us"), "run")
    assert sample.steps == (100_000,)


def test_cpu_only(tmp_path: Path) -> None:
    """On a CPU a step is made of the outermost operators of its thread, and the rest."""
    events = [
        *[step(i, 100 * i, 100) for i in range(3)],
        op("aten::linear", 110, 50),
        op("aten::addmm", 120, 30),
        op("aten::relu", 170, 20),
        host("python_function", "loss", 200, 90, tid=7),
    ]
    sample = take_sample(opened(tmp_path, events), "run")
    assert not sample.has_device
    leaves = sample.leaves.select("part", "name", "own_ns").rows()
    assert sorted(leaves) == [
        ("operators", "aten::linear", 50_000),
        ("operators", "aten::relu", 20_000),
        ("other", "outside operators", 130_000),
    ]


def test_launched_kernels_know_where(tmp_path: Path) -> None:
    events = [op("aten::mm", 0, 20), *launched(5, kernel("k", 30, 10))]
    (leaf,) = take_sample(opened(tmp_path, events), "run").leaves.rows(named=True)
    assert (leaf["operator"], leaf["outer_operator"]) == ("aten::mm", "aten::mm")


def test_program_of_the_proof_is_as_long_as_it_says() -> None:
    assert Program().step_us == 400 + 150 + 90 + 60 + 30 + 50


def test_samples_alone_are_tried_and_not_compared(tmp_path: Path) -> None:
    """Whoever recorded a C program by `sightline run` is not told to record it by that."""
    stacks = {(("main", "stencil.c", 20), ("sweep", "stencil.c", 8)): 1.0}
    profile = write_profile(tmp_path / "a.cpu.speedscope.json", stacks, PY_SPY)
    with pytest.raises(MissingDataError) as error:
        take_sample(sightline.open(profile), "a")
    assert "sightline try -- BEFORE -- AFTER" in str(error.value)
    assert "sightline run" not in str(error.value)
