"""What is said first of every file of the corpus is what answers.tsv says: a change is seen."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.campaigns import sample
from support.places import ROOT


def load_script() -> ModuleType:
    """scripts/corpus_answers.py, which imports its neighbour."""
    folder = str(ROOT / "scripts")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("corpus_answers")


ANSWERS = load_script()
ROWS = ANSWERS.read_table()
# Read by a package that is optional.
NEEDS = {"otf2": "otf2"}


@pytest.mark.corpus
@pytest.mark.parametrize("name", sample(sorted(ROWS), every=40))
def test_what_is_said_first(corpus: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    package = NEEDS.get(name.split("/")[0])
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    if not (corpus / name).exists():
        pytest.skip("not in this corpus")
    monkeypatch.chdir(corpus)  # and back: asking goes there
    assert ANSWERS.ask(corpus, name) == ROWS[name]


@pytest.mark.corpus
def test_every_file_of_the_corpus_has_a_row(corpus: Path) -> None:
    assert set(ANSWERS.list_names(corpus)) <= set(ROWS)


def test_no_row_is_a_bug_or_too_late() -> None:
    assert {row.code for row in ROWS.values()} == {ANSWERS.DONE, ANSWERS.WRONG}


def test_changes_are_shown_with_both_versions() -> None:
    before = ANSWERS.Row("a.json", 0, "a.json · PyTorch", "launch-bound", "right")
    after = before._replace(first="silence", grade="partly")
    assert ANSWERS.format_changes({"a.json": before}, [before]) == []
    changes = ANSWERS.format_changes({"a.json": before}, [after])
    assert changes[-2:] == ["-" + "\t".join(map(str, before)), "+" + "\t".join(map(str, after))]
