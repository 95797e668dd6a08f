"""How the suite runs: what rests on time comes last and may be repeated; and the counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.places import ROOT, TESTS
from support.suite import choose_long, choose_sample, read_costs, write_costs

pytest.importorskip("pytest_rerunfailures")

SETTINGS = """
[tool.pytest.ini_options]
addopts = "-p no:cacheprovider -p no:sightline -p support.suite --strict-markers -rR"
markers = ["timing: rests on time", "campaign: long"]
"""
# Each test fails the first time that it runs.
ONE = """
import pytest
from pathlib import Path

def run(name):
    with Path("ran").open("a") as file:
        file.write(name + " ")
    assert Path("ran").read_text().split().count(name) > 1

@pytest.mark.timing
def test_late():
    run("late")

def test_plain():
    run("plain")

@pytest.mark.campaign
def test_long():
    run("long")
"""
TWO = "def test_first():\n    pass\n\ndef test_second():\n    pass\n"


def run_tests(folder: Path, *words: str) -> tuple[int, dict[str, object], str]:
    """Exit code, counts and output of pytest on two small files."""
    (folder / "pyproject.toml").write_text(SETTINGS)
    (folder / "test_one.py").write_text(ONE)
    (folder / "test_two.py").write_text(TWO)
    counts = folder / "counts.json"
    command = [sys.executable, "-m", "pytest", "-q", f"--counts={counts}", *words]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "SIGHTLINE_CAMPAIGNS": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert counts.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(counts.read_text()), done.stdout


def test_only_what_rests_on_time_is_repeated_and_it_comes_last(tmp_path: Path) -> None:
    code, counts, _ = run_tests(tmp_path)
    assert code == 1
    assert (tmp_path / "ran").read_text().split() == ["plain", "late", "late"]
    assert counts == {
        "passed": 3, "skipped": 1, "failed": 1, "repeated": ["test_one.py::test_late"],
    }  # fmt: skip


def test_without_the_plug_in_that_repeats_nothing_is(tmp_path: Path) -> None:
    code, counts, _ = run_tests(tmp_path, "-p", "no:rerunfailures")
    assert (code, counts["failed"], counts["repeated"]) == (1, 2, [])


def test_one_of_each_file_is_its_first_that_rests_on_no_time(tmp_path: Path) -> None:
    _, counts, _ = run_tests(tmp_path, "--one-of-each")
    assert (counts["passed"], counts["failed"]) == (1, 1)
    assert (tmp_path / "ran").read_text().split() == ["plain"]


class Case:
    """What the choice of a sample asks of a test."""

    def __init__(self, name: str, *markers: str) -> None:
        self.nodeid, self.path, self.markers = name, Path(name.split("::")[0]), markers

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None


def test_of_long_functions_a_sample_runs(tmp_path: Path) -> None:
    """Four of twelve cases of half a second fit into two; what is in no list runs whole."""
    (tmp_path / "costs.tsv").write_text("function\tseconds a case\na.py::test_long\t0.50\n")
    costs = read_costs(tmp_path / "costs.tsv")
    long = [Case(f"a.py::test_long[{n}]") for n in range(12)]
    short = [Case(f"a.py::test_short[{n}]") for n in range(5)]
    chosen = choose_sample([*long, *short], costs, 2.0)
    assert [c.nodeid for c in chosen[:4]] == [f"a.py::test_long[{n}]" for n in (0, 3, 6, 9)]
    assert chosen[4:] == short
    assert choose_sample(long, costs, 0.1) == long[:1]
    assert choose_sample(long, costs, 60.0) == long


def test_of_a_files_long_tests_a_sample_runs() -> None:
    """The shortest two fit into a second; the short ones and a campaign's run, too."""
    costs = {"a.py::test_a": 0.7, "a.py::test_b": 0.5, "a.py::test_c": 0.4, "a.py::test_sweep": 0.3}
    costs |= {"a.py::test_short": 0.2, "b.py::test_longest": 9.0}
    tests = [Case(name, *["campaign"] * name.endswith("sweep")) for name in costs]
    tests.append(Case("a.py::test_unknown"))
    chosen = choose_long(tests, costs, 1.0)
    left_out = {t.nodeid for t in tests} - {t.nodeid for t in chosen}
    assert left_out == {"a.py::test_a"}
    assert len(choose_long(tests, costs, 60.0)) == len(tests)


def test_costs_are_the_mean_of_the_cases(tmp_path: Path) -> None:
    """Set-up included, and by a sample of them: of which none runs, none is known."""

    def report(name: str, seconds: float, cases: int, when: str = "call") -> SimpleNamespace:
        told = [("cases", cases), ("seconds", 0.5), ("seconds", seconds - 0.5)]
        return SimpleNamespace(nodeid=name, user_properties=told, when=when)

    reports = [
        *(report(f"a.py::test_long[{n}]@group", 1.0 + n, 3) for n in range(3)),
        report("a.py::test_long[0]", 9.0, 3, "setup"),
        *(report(f"a.py::test_short[{n}]", 0.1, 3) for n in range(3)),
        report("a.py::test_sampled[0]", 0.1, 30),
        report("a.py::test_one", 7.0, 1),
        report("a.py::test_short_one", 0.2, 1),
    ]
    write_costs(tmp_path / "costs.tsv", reports)
    assert read_costs(tmp_path / "costs.tsv") == {
        "a.py::test_long": 2.0, "a.py::test_one": 7.0, "a.py::test_sampled": 0.1,
    }  # fmt: skip


def test_what_has_not_begun_in_time_is_skipped_and_says_so(tmp_path: Path) -> None:
    _, counts, said = run_tests(tmp_path, "--seconds=0", "-rs")
    assert (counts["passed"], counts["skipped"]) == (0, 5)
    assert "0 s were over: make test" in said


def test_the_last_lines_are_the_sums_and_each_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import run_tests as script

    parts = [
        {"passed": 9000, "skipped": 300, "failed": 0, "repeated": []},
        {"passed": 99, "skipped": 4, "failed": 1, "repeated": ["a::b", "a::b"]},
    ]
    assert script.format_counts(parts).splitlines() == [
        "repeated: a::b",
        "repeated: a::b",
        "passed     9099",
        "skipped     304",
        "failed        1",
        "repeats       2",
    ]
