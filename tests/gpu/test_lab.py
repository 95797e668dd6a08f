"""The lab's exercises on a real GPU: `make gpu-check`. Skipped where there is none.

Each is recorded three times before and after its fix, and the planted cause must come first. With
SIGHTLINE_EXAMPLES=FOLDER, the recordings are kept there, and lab.tsv has what was predicted and
what the fix brought, for docs/gpu-checks.md.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from sightline.lab.exercises import explain_lacks, list_exercises
from support.command import sightline

pytestmark = pytest.mark.gpu
EXERCISES = {e.name: e for e in list_exercises() if {"gpu", "two GPUs"} & set(e.needs)}
TIMES = 3


@pytest.mark.parametrize("name", EXERCISES)
def test_an_exercise_on_a_gpu(name: str, tmp_path: Path) -> None:
    exercise = EXERCISES[name]
    if lacks := exercise.list_lacks():
        pytest.skip(f"needs {explain_lacks(lacks)}")
    folder = tmp_path / name
    outcome = sightline("lab", "run", name, "--times", str(TIMES), "--json", "-o", str(folder))
    assert outcome.out, outcome.err
    told = json.loads(outcome.out)
    if target := os.environ.get("SIGHTLINE_EXAMPLES"):
        kept = Path(target) / "lab" / name
        shutil.copytree(folder / "1", kept, dirs_exist_ok=True)
        gains = [told["predicted_gain_pct"], told["realised_gain_pct"]]
        row = [name, told["planted"], told["planted_first"], *gains, told["error_pct"]]
        with (Path(target) / "lab.tsv").open("a", encoding="utf-8") as table:
            table.write("\t".join(map(str, row)) + "\n")
    assert told["planted_first"] == TIMES or exercise.finding is None, told["first_findings"]
    assert sum(told["realised_gain_pct"]) > 0
