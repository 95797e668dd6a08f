"""Whoever opens a recording beside the checkout says so, by a marker that a fresh clone skips."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import TESTS

SETTINGS = """
[tool.pytest.ini_options]
pythonpath = ["tests"]
addopts = "-p no:cacheprovider -p no:sightline -p support.corpus_guard --strict-markers -rfEs"
markers = ["corpus: reads recordings"]
"""
HEAD = """
import pytest, sqlite3, subprocess, sys
from support.corpus import CORPUS, list_recordings

@pytest.fixture
def corpus():
    return CORPUS
"""
# By name: what it does, and whether it carries the marker.
OPENING = (
    HEAD
    + """
@pytest.mark.corpus
def test_marked(corpus):
    assert (corpus / "a.txt").read_text() == "recorded"

@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("*.txt"))
def test_every(path):
    assert path.read_text()

def test_elsewhere(tmp_path):
    (tmp_path / "a.txt").write_text("of its own")

def test_open():
    assert not (CORPUS / "missing.txt").exists()
    try:
        (CORPUS / "missing.txt").read_text()
    except OSError:
        pass  # as the product does, which reports it

def test_listing():
    list(CORPUS.parent.glob("*/*"))

def test_program():
    subprocess.run([sys.executable, "-c", "import sys", str(CORPUS / "a.txt")])

@pytest.fixture
def opened():
    open(CORPUS.parent / "b.txt", "a").close()

def test_fixture(opened):
    pass
"""
)
ASKING = (
    HEAD
    + """
def test_asks(corpus):
    pass
"""
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the guard in it and nothing beside it."""
    support = tmp_path / "checkout" / "tests" / "support"
    support.mkdir(parents=True)
    for name in ("__init__.py", "places.py", "corpus.py", "corpus_guard.py"):
        shutil.copy(TESTS / "support" / name, support / name)
    (tmp_path / "checkout" / "pyproject.toml").write_text(SETTINGS)
    return tmp_path / "checkout"


def run_tests(checkout: Path, text: str) -> str:
    (checkout / "tests" / "test_one.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests"],
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("has_corpus", [True, False])
def test_unmarked_tests_fail_with_and_without_recordings(checkout: Path, has_corpus: bool) -> None:
    if has_corpus:
        corpus = checkout.parent / "shared" / "corpus"
        corpus.mkdir(parents=True)
        (corpus / "a.txt").write_text("recorded")
        (corpus / "MANIFEST.tsv").write_text("file\tcontents\na.txt\t\n")
    else:
        (checkout.parent / "shared").mkdir()
    said = run_tests(checkout, OPENING)
    failed = {line.split("::")[1].split(" ")[0] for line in said.splitlines() if "::test" in line}
    # Without a corpus a folder of it cannot be listed, and is asked for all the same.
    assert failed == {"test_open", "test_listing", "test_program", "test_fixture"}, said
    assert said.count("without the marker `corpus`") >= 4, said
    assert ("3 passed" if has_corpus else "1 passed, 2 skipped") in said, said


def test_asking_for_the_corpus_without_the_marker_ends_the_run(checkout: Path) -> None:
    said = run_tests(checkout, ASKING)
    assert "tests that ask for `corpus` without its marker" in said
    assert "tests/test_one.py::test_asks" in said
    assert "passed" not in said
