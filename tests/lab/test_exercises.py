"""The lab's exercises: whole, true to their lessons, and runnable."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.core import registry
from sightline.lab.exercises import SIDES, Exercise, list_exercises
from sightline.lab.gains import compare_gains, estimate, measure_realised
from support import fakes
from support.campaigns import CAMPAIGNS, sample
from support.command import sightline
from support.pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import lab as pages

EXERCISES = {exercise.name: exercise for exercise in list_exercises()}
KEPT = [n for n, e in EXERCISES.items() if e.finding and e.find_recording("baseline")]
RESULTS = ("Predicted", "Realised")
LESSONS = [
    pytest.param(name, number, id=f"{name} {number}")
    for name, exercise in EXERCISES.items()
    for number, _ in enumerate(pages.PAIR.finditer((exercise.folder / "README.md").read_text()))
]


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_is_whole(name: str) -> None:
    exercise = EXERCISES[name]
    text = (exercise.folder / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {exercise.title}\n")
    for part in ("**Symptom.**", "## Look", "## Why", "## Fix", "## Result"):
        assert part in text, part
    assert "```text\n```" not in text, "an output is missing: python scripts/lab.py"
    programs = [exercise.find_program(side) for side in SIDES]
    assert all(programs) or not any(programs)
    assert exercise.status in ("real CPU", "real GPU", "simulated")
    if exercise.finding is not None:
        assert exercise.finding in {
            module.RULE.name for _, module in registry.load_members("rules")
        }
    for program in programs:
        if program is not None and program.suffix == ".py":
            compile(program.read_text(encoding="utf-8"), program.name, "exec")


@pytest.mark.parametrize(("name", "number"), sample(LESSONS, 3))
def test_a_lesson_shows_what_its_commands_print(
    name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = EXERCISES[name].folder
    pair = list(pages.PAIR.finditer((folder / "README.md").read_text(encoding="utf-8")))[number]
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    said = []
    for line in pair["commands"].strip().splitlines():
        program, *words = shlex.split(line, comments=True)
        assert program == "sightline"
        outcome = sightline(*words)
        assert outcome.code in (0, 1), outcome.err
        said.append(outcome.out)
    lines = [line.rstrip() for line in "\n".join(said).rstrip("\n").split("\n")]
    assert lines == pair["output"].rstrip("\n").split("\n")


@pytest.mark.parametrize("name", KEPT[:: 1 if CAMPAIGNS else 7])
def test_what_the_command_says_of_kept_recordings(name: str) -> None:
    outcome = sightline("lab", "run", name, "--kept", "--json")
    told = json.loads(outcome.out)
    assert told["first_findings"] == [EXERCISES[name].finding]
    assert outcome.code == 0
    (gain,) = told["realised_gain_pct"]
    (before,), (after,) = told["baseline_step_ns"], told["improved_step_ns"]
    assert gain == pytest.approx(100 * (before - after) / before)


def read_result(exercise: Exercise) -> list[str]:
    """Predicted, realised, error and how often the cause was first, as the lesson shows them."""
    text = (exercise.folder / "README.md").read_text(encoding="utf-8")
    found = [re.search(rf"^{word} +(<?[\d.-]+ %) of a step$", text, re.M) for word in RESULTS]
    if not any(found) or f"sightline lab run {exercise.name}" not in text:
        return ["", "", "", ""]
    error = re.search(r"^Error +the prediction is (\d+) % (above|below)", text, re.M)
    first = re.search(r"^  The planted cause, ([\w-]+), came first in\s+(\d of \d)\.", text, re.M)
    assert all(found)
    assert (first is None) == (exercise.finding is None)
    assert first is None or first[1] == exercise.finding
    return [
        *(match[1].replace("<0.1", "0.0") for match in found if match is not None),
        "" if error is None else f"{'+' if error[2] == 'above' else '-'}{error[1]} %",
        "0 of 1" if first is None else first[2],
    ]


def test_the_table_of_the_lab_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of kept recordings it says what the lessons show, which are compared with the commands."""
    if not CAMPAIGNS:
        monkeypatch.setattr(pages, "try_kept", lambda exercise: None)
    written = pages.write_table(list_exercises()).splitlines()
    kept = pages.TABLE.read_text(encoding="utf-8").splitlines()
    for now, line in zip(written, kept, strict=True):
        name = re.match(r"\| \[([\w-]+)\]", line)
        exercise = None if name is None else EXERCISES[name[1]]
        if CAMPAIGNS or exercise is None or exercise.measured:
            assert now == line
        else:
            cells = " | ".join(read_result(exercise))
            assert f"{now.removesuffix(' |  |  |  |  |')} | {cells} |" == line


def test_no_recording_names_a_machine_or_a_place() -> None:
    for path in sorted((ROOT / "lab").glob("*/recorded/**/*")):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix == ".gz":
                import gzip

                data = gzip.decompress(data)
            assert not re.search(rb"/(?:work|home|root|tmp)/", data), path
            assert path.stat().st_size < 2 << 20, path


def test_the_list_says_what_runs_here() -> None:
    text = sightline("lab").out
    assert all(name in text for name in EXERCISES)
    told = {row["name"]: row for row in json.loads(sightline("lab", "--json").out)}
    assert told["data-loading"]["finding"] == "host-loading"
    lacks = told["data-loading"]["lacks"]
    assert ("torch" in lacks) == (importlib.util.find_spec("torch") is None)


def test_an_unknown_exercise_names_a_near_one() -> None:
    outcome = sightline("lab", "run", "data-loadin")
    assert outcome.code == 2
    assert "did you mean data-loading?" in outcome.err


def test_nothing_can_be_repeated_less_than_once() -> None:
    assert sightline("lab", "run", "data-loading", "--times", "0").code == 2


def test_show_prints_the_lesson() -> None:
    outcome = sightline("lab", "show", "kv-cache")
    assert outcome.code == 0
    assert "torch.cat" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_gains_and_their_intervals() -> None:
    from scipy import stats

    values = (60.0, 63.0, 66.0)
    found = estimate(values)
    low, high = stats.t.interval(
        0.95, 2, loc=63.0, scale=statistics.stdev(values) / 3**0.5
    )  # fmt: skip
    assert (found.mean, found.low, found.high) == pytest.approx((63.0, low, high))
    assert estimate([5.0]) == estimate([5.0])
    assert measure_realised(10.0, 4.0) == 60.0
    assert compare_gains([54.0], [60.0]) == pytest.approx(-10.0)
    assert compare_gains([54.0], [-1.0]) is None


@pytest.mark.timing
@pytest.mark.campaign
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_an_exercise_runs_for_real(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    outcome = sightline(
        "lab", "run", "small-operators", "--times", "1", "--json", "-o", str(folder)
    )  # fmt: skip
    told = json.loads(outcome.out)
    assert told["where"] == "this machine"
    # Other tests run beside it: then the first thing to say may be that there is no CPU.
    (first,) = told["first_findings"]
    assert first in (told["planted"], "host-preempted")
    assert outcome.code == (0 if first == told["planted"] else 1)
    assert told["realised_gain_pct"][0] > 30
    assert sorted(p.name for p in (folder / "1").iterdir()) == [
        "baseline.sightline", "improved.sightline",
    ]  # fmt: skip


def test_a_program_that_fails_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sightline.errors import RequestError
    from sightline.lab.exercises import Exercise
    from sightline.lab.record import record_side

    (tmp_path / "baseline.py").write_text("raise SystemExit('no data')\n")
    mine = Exercise("mine", tmp_path, "Mine", (), None, "real CPU")
    with pytest.raises(RequestError, match="failed with exit code 1") as raised:
        record_side(mine, "baseline", tmp_path / "out")
    assert "no data" in str(raised.value)
    with pytest.raises(RequestError, match="nothing to run"):
        record_side(mine, "improved", tmp_path / "out")


def test_a_cuda_program_is_built_beside_its_recording(tmp_path: Path, monkeypatch) -> None:
    from sightline.errors import RequestError
    from sightline.lab.exercises import Exercise
    from sightline.lab.record import record_side

    tools, source, folder = (tmp_path / name for name in ("tools", "mine", "out"))
    for place in (tools, source, folder):
        place.mkdir()
    (source / "baseline.cu").write_text("int main() {}\n")
    fakes.program(tools, "nvcc", "#!/bin/sh\nprintf '#!/bin/sh\\nexit 0\\n' >$4; chmod +x $4\n")
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    mine = Exercise("mine", source, "Mine", (), None, "simulated", record=("--backend", "nvml"))
    made = record_side(mine, "baseline", folder)
    assert made.is_dir()
    assert sorted(p.name for p in source.iterdir()) == ["baseline.cu"]
    fakes.program(tools, "nvcc", "#!/bin/sh\necho 'error: no such thing' >&2; exit 2\n")
    with pytest.raises(RequestError, match=r"compiling baseline.cu failed.*\n?.*no such thing"):
        record_side(mine, "baseline", folder)


def test_the_tour_runs_all_of_its_commands() -> None:
    from sightline.doors.cli.tour import STOPS

    outcome = sightline("tour", "--no-wait")
    assert outcome.code == 0
    for stop in STOPS:
        assert stop.title in outcome.out
    assert "  $ sightline lab run data-loading --kept" in outcome.out
    # Each command printed something: a blank line, the command, a blank line, then its output.
    parts = re.split(r"^\d of \d  ", outcome.out, flags=re.MULTILINE)[1:]
    assert len(parts) == len(STOPS)
    assert all(len(part.splitlines()) > 8 for part in parts)


def test_what_sightline_says_of_a_failed_run_does_not_hide_the_programs_words() -> None:
    from sightline.lab.record import _explain

    notes = "sightline: the program ended with 1\n  !  py-spy took no samples:\n    7: main\n"
    done = subprocess.CompletedProcess(["p"], 1, "", f"no data\n{notes}")
    assert "no data" in str(_explain("baseline", done))
