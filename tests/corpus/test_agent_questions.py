"""Questions that an agent asks of real recordings, by `sightline mcp`'s tools."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from support.campaigns import CAMPAIGNS
from support.places import ROOT


@pytest.fixture(scope="module")
def script() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "agent_questions.py")))


@pytest.mark.parametrize(
    ("answer", "truth", "exact"),
    [
        (0.42261, 0.4226, True),
        (0.42275, 0.4226, False),
        (0.003251, 0.0032, True),  # a verdict that was cut, not rounded
        (1_732_965_400, 1_732_965_000, True),
        (1_732_967_000, 1_732_965_000, False),
        (660_551_006, 660_551_006, True),
        (660_551_007, 660_551_006, False),
    ],
)
def test_exact_is_to_the_last_digit(
    script: SimpleNamespace, answer: float, truth: float, exact: bool
) -> None:
    assert script.is_exact(answer, truth) == exact


def test_the_order_is_that_of_hashes(script: SimpleNamespace) -> None:
    """However the verdicts are listed."""
    cases = script.load_script("diagnose_cases").load_cases()
    names = [case["name"] for case in script.shuffle_cases(cases)]
    assert names == [case["name"] for case in script.shuffle_cases(cases[::-1])]
    assert names != sorted(names)


@pytest.mark.corpus
def test_figures_are_exact_and_whys_are_right(script: SimpleNamespace, corpus: Path) -> None:
    """Every figure; of the whys at most one in twenty not first, and none wrong."""
    diagnose = script.load_script("diagnose_cases")
    says = yaml.safe_load((diagnose.CASES / "causes.yaml").read_text())
    half = script.HALF if CAMPAIGNS else 2
    questions = script.list_questions(corpus, diagnose.load_cases(), half)
    scores = [script.ask(corpus, question, diagnose, says) for question in questions]
    assert len(scores) == 2 * half
    figures = [s for s in scores if s.question.kind != "why"]
    whys = [s for s in scores if s.question.kind == "why"]
    assert [s.answer for s in figures if s.grade != "right"] == []
    assert [s.answer for s in whys if s.grade not in ("right", "partly")] == []
    assert sum(s.grade == "partly" for s in whys) <= max(len(whys) / 20, 1)
    assert max(s.calls for s in scores) <= script.MOST_CALLS
    assert max(s.tokens for s in scores) <= script.MOST_TOKENS
