"""The fixer's score: edits fit their programs, and what is obeyed is what a finding says."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from sightline.core import registry
from support.places import ROOT


def load_script() -> Any:
    """scripts/fixer_score.py, which is in no package."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("fixer_score")
    finally:
        sys.path.pop(0)


fixer = load_script()
PROGRAMS = fixer.list_programs()


def make_finding(rule: str, summary: str = "", **other: object) -> dict[str, Any]:
    told = {"evidence": [], "where": {}, "fix": None, "abstained": False, "gain_pct": None}
    return {"rule": rule, "summary": summary, **told, **other}


def test_there_are_fifty_programs_and_each_edit_fits():
    rules = {module.RULE.name for _, module in registry.load_members("rules")}
    assert len(PROGRAMS) == len({program.name for program in PROGRAMS}) == 50
    for program in PROGRAMS:
        text = program.path.read_text(encoding="utf-8")
        for edit in program.edits:
            assert set(edit.rules) <= rules, program.name
            if program.exercise is None:
                assert fixer.apply_edit(text, edit) != text
            else:
                assert program.exercise.find_program("improved"), program.name


def test_the_first_finding_that_judges_is_obeyed_where_it_names_what_is_edited():
    (edit,) = next(p for p in PROGRAMS if p.name == "list_membership").edits
    abstains = make_finding("host-growing", abstained=True)
    speaks = make_finding("hot-function", "66 % is in count_distinct (a.py:9).")
    first = fixer.choose_first([abstains, speaks])
    assert first is speaks
    assert fixer.choose_edit(speaks, [edit]) is edit
    assert fixer.choose_edit(make_finding("hot-function", "in main (a.py:20)"), [edit]) is None
    assert fixer.choose_edit(make_finding("host-busy", "count_distinct"), [edit]) is None
    assert fixer.choose_first([abstains]) is None


def test_an_edit_that_fits_twice_is_an_error():
    with pytest.raises(ValueError, match="occurs 2 times"):
        fixer.apply_edit("a = 1\na = 1\n", fixer.Edit(("r",), (), (("a = 1", "a = 2"),)))


def test_rounds_begin_with_each_side_in_turn_and_outputs_are_compared():
    order: list[int] = []

    def run(side: int) -> tuple[float, str]:
        order.append(side)
        return (4.0, "7") if side == 0 else (1.0, "7")

    assert fixer.run_rounds(2, run) == ((75.0, 75.0), True)
    assert order == [0, 1, 1, 0]
    assert fixer.run_rounds(1, lambda side: (1.0, str(side))) == ((0.0,), False)


@pytest.mark.parametrize(
    ("gains", "same", "why_not", "verdict"),
    [
        ((50.0, 51.0, 52.0), True, None, "faster"),
        ((-9.0, -10.0, -11.0), True, None, "slower"),
        ((-50.0, 1.0, 60.0), True, None, "undecided"),
        ((50.0, 51.0, 52.0), False, None, "other output"),
        ((), True, "nothing declared", "nothing to obey"),
    ],
)
def test_a_verdict_needs_an_interval_on_one_side_and_the_same_output(gains, same, why_not, verdict):
    assert fixer.judge(fixer.Score("p", "r", "", None, gains, same, why_not)) == verdict


def test_the_page_is_that_of_the_kept_results():
    scores, where = fixer.read_kept(fixer.RESULTS)
    assert {score.name for score in scores} <= {program.name for program in PROGRAMS}
    assert fixer.TABLE.read_text(encoding="utf-8") == fixer.write_page(scores, where)


@pytest.mark.campaign
@pytest.mark.parametrize("program", PROGRAMS[:32], ids=lambda p: p.name)
def test_both_sides_of_a_program_print_the_same(program, tmp_path: Path):
    for edit in program.edits:
        edited = fixer.write_edited(program, edit, tmp_path)
        outputs = {fixer.measure(program, path, tmp_path)[1] for path in (program.path, edited)}
        assert len(outputs) == 1


def test_a_program_is_run_and_its_steps_are_timed(tmp_path: Path):
    program = tmp_path / "p.py"
    lines = (
        "import sightline as sl",
        "def main():",
        "    for _ in range(4):",
        "        sl.step()",
        "    print(7)",
    )
    program.write_text("\n".join(lines))
    took, output = fixer.measure(fixer.Program("p", program, ()), program, tmp_path)
    assert took > 0
    assert output == "7\n"
