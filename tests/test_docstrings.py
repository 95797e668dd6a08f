"""The examples in the docstrings of what is public: each is run, and says what it prints."""

from __future__ import annotations

import doctest
import importlib
import shutil
from pathlib import Path

import pytest

import sightline
from support.places import EXAMPLES

# What docs/api.md promises, and the fewest examples that each has.
MODULES = {
    "sightline": 5,
    "sightline.session": 10,
    "sightline.core.model.run": 5,
    "sightline.testing.rows": 3,
    "sightline.testing.findings": 1,
}
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLES / "simulated-dataloader.json.gz", tmp_path / "trace.json.gz")
    monkeypatch.chdir(tmp_path)
    around = {"sightline": sightline, "run": sightline.open("trace.json.gz"), "folder": tmp_path}
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module, extraglobs=around, optionflags=LIKE)
    assert failed == 0, capsys.readouterr().out
    assert tried >= MODULES[name]
