"""What rules are apt to confuse: one cause is found first with its exact gain, the other not."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline import findings
from sightline.core.model.declare import Finding
from support.as_nsys import nsys
from synth import Run as Program
from synth import kineto
from synth.families import window_ns
from synth.twins import TWINS, Twin

SEED = 3
CASES = [(name, recorder) for name, twin in TWINS.items() for recorder in twin.recorders]
CAUSED = [(name, recorder) for name, recorder in CASES if TWINS[name].rule]
NOTHING = [(name, recorder) for name, recorder in CASES if not TWINS[name].rule]


def judge(program: Program, recorder: str, folder: Path) -> list[Finding]:
    """What is above info of a recording of the program."""
    if recorder == "nsys":
        path = nsys(program, folder / "run.sqlite")
    else:
        path = folder
        kineto.write(program, path, dialect="2025")
    found = findings(sightline.open(str(path)))
    return [f for f in found if not f.abstained and f.severity != "info"]


def true_gain_ns(twin: Twin) -> int:
    """What the window loses without the cause, by the simulator alone."""
    return window_ns(twin.build(True, SEED)) - window_ns(twin.build(False, SEED))


@pytest.mark.parametrize(("name", "recorder"), CAUSED)
def test_cause_first_and_its_gain_true(name: str, recorder: str, tmp_path: Path) -> None:
    twin = TWINS[name]
    first = judge(twin.build(True, SEED), recorder, tmp_path)[0]
    assert first.rule == twin.rule
    assert first.gain_ns == pytest.approx(true_gain_ns(twin), rel=0.1)


@pytest.mark.parametrize(("name", "recorder"), NOTHING)
def test_nothing_to_gain_in_a_step(name: str, recorder: str, tmp_path: Path) -> None:
    assert judge(TWINS[name].build(True, SEED), recorder, tmp_path) == []


def test_slow_link_is_named(tmp_path: Path) -> None:
    program = TWINS["one slow link of a pipeline"].build(True, SEED)
    first = judge(program, "kineto", tmp_path)[0]
    assert "1 and 2" in f"{first.summary} {first.evidence}"
