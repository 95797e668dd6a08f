"""How the suite runs: what rests on time comes last and may be repeated; and the counts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.own_assertions import list_without
from support.places import ROOT, TESTS
from support.rules import assert_silent, assert_speaks
from support.sampling import choose_long, choose_sample
from support.suite import group_by_fixtures, read_costs, write_costs

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
        self.function: object = None

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None


def test_of_long_functions_a_sample_runs(tmp_path: Path) -> None:
    """Four of twelve cases of half a second fit into two; what is in no list runs whole."""
    (tmp_path / "costs.tsv").write_text("function\tseconds a case\na.py::test_long\t0.50\n")
    costs = read_costs(tmp_path / "costs.tsv")
    long = [Case(f"a.py::test_long[{n}]") for n in range(12)]
    short = [Case(f"a.py::test_short[{n}]") for n in range(5)]
    chosen = choose_sample([*long, *short], costs, 2.0, 99)
    assert [c.nodeid for c in chosen[:4]] == [f"a.py::test_long[{n}]" for n in (0, 3, 6, 9)]
    assert chosen[4:] == short
    assert choose_sample(long, costs, 0.1, 99) == long[:1]
    assert choose_sample(long, costs, 60.0, 99) == long


def test_of_many_cases_a_few_run_and_one_of_each_member() -> None:
    """Three of nine, evenly spread; of a rule, an analysis or an importer the first one."""
    many = [Case(f"a.py::test_many[{n}]") for n in range(9)]
    names = ("x", "launch_bound-1", "launch_bound-2", "idle_gaps", "y", "kineto-a", "z", "job-late")
    members = [Case(f"a.py::test_members[{name}]") for name in names]
    chosen = choose_sample([*many, *members], {}, 60.0, 3)
    assert chosen[:3] == [many[0], many[3], many[6]]
    assert [c.nodeid.partition("[")[2] for c in chosen[3:]] == [
        "x]", "launch_bound-1]", "launch_bound-2]", "idle_gaps]", "kineto-a]",
    ]  # fmt: skip
    long = {"a.py::test_members": 0.4}
    assert choose_sample(members, long, 0.4, 3) == members[:1], "of each it would take 1.2 s"


def test_of_a_files_long_tests_a_sample_runs() -> None:
    """The shortest two fit into a second; the short ones and a campaign's run, too."""
    costs = {"a.py::test_a": 0.7, "a.py::test_b": 0.5, "a.py::test_c": 0.4, "a.py::test_sweep": 0.3}
    costs |= {"a.py::test_short": 0.05, "b.py::test_longest": 9.0}
    tests = [Case(name, *["campaign"] * name.endswith("sweep")) for name in costs]
    tests.append(Case("a.py::test_unknown"))
    chosen = choose_long(tests, costs, 1.0)
    left_out = {t.nodeid for t in tests} - {t.nodeid for t in chosen}
    assert left_out == {"a.py::test_a"}
    assert len(choose_long(tests, costs, 60.0)) == len(tests)


def test_a_file_keeps_a_test_and_a_rule_both_of_its_judgements() -> None:
    """Though no time is left for long ones: the shortest alone, of each kind that is missing."""

    def case(name: str, function: object = None) -> Case:
        case = Case(name)
        case.function = function
        return case

    def speaks() -> None:
        _ = assert_speaks

    def is_silent() -> None:
        _ = assert_silent

    costs = {f"{name}.py::test_{n}": 1.0 + n for name in "abc" for n in range(4)}
    plain = [case(f"a.py::test_{n}") for n in (3, 2)]
    beside = [case("b.py::test_short"), case("b.py::test_1")]
    rule = [case("c.py::test_short", speaks), case("c.py::test_1", speaks)]
    rule += [case("c.py::test_2", is_silent), case("c.py::test_3", is_silent)]
    chosen = choose_long([*plain, *beside, *rule], costs, 0.0)
    assert {c.nodeid for c in chosen} == {
        "a.py::test_2", "b.py::test_short", "c.py::test_short", "c.py::test_2",
    }  # fmt: skip


def test_costs_are_the_mean_of_the_cases(tmp_path: Path) -> None:
    """Set-up included, and by a sample of them: of which none runs, none is known."""

    def report(name: str, seconds: float, cases: int, when: str = "call") -> SimpleNamespace:
        told = [("cases", cases), ("seconds", 0.5), ("seconds", seconds - 0.5)]
        return SimpleNamespace(nodeid=name, user_properties=told, when=when)

    reports = [
        *(report(f"a.py::test_long[{n}]@group", 1.0 + n, 3) for n in range(3)),
        report("a.py::test_long[0]", 9.0, 3, "setup"),
        *(report(f"a.py::test_short[{n}]", 0.05, 3) for n in range(3)),
        report("a.py::test_sampled[0]", 0.1, 30),
        report("a.py::test_one", 7.0, 1),
        report("a.py::test_short_one", 0.05, 1),
    ]
    reports[0].user_properties += [("fixture a.py::long", 3.0), ("fixture a.py::short", 0.05)]
    write_costs(tmp_path / "costs.tsv", reports)
    assert read_costs(tmp_path / "costs.tsv") == {
        "a.py::long": 3.0,
        "a.py::test_long": 2.0, "a.py::test_one": 7.0, "a.py::test_sampled": 0.1,
    }  # fmt: skip


def test_of_what_did_not_run_the_cost_stays_while_it_is_there(tmp_path: Path) -> None:
    """A sample leaves out what is long: forgotten, it would run the next time."""
    kept = "tests/test_suite.py::test_of_what_did_not_run_the_cost_stays_while_it_is_there"
    rows = (f"{kept}\t3.0", "tests/test_suite.py::test_gone\t4.0", "tests/test_gone.py::test\t5.0")
    (tmp_path / "costs.tsv").write_text("\n".join(["function\tseconds a case", *rows, ""]))
    write_costs(tmp_path / "costs.tsv", [])
    assert read_costs(tmp_path / "costs.tsv") == {kept: 3.0}


SHARING = """
import pytest

@pytest.fixture(scope="module")
def shared():
    return sum(n * n for n in range(3_000_000))

@pytest.fixture
def own(shared):
    return shared

def test_first(own):
    assert own

def test_second(shared):
    assert shared

def test_alone():
    pass
"""


def test_a_shared_fixture_counts_for_no_test_and_keeps_its_users_together(tmp_path: Path) -> None:
    """Whoever comes first would pay for it, be left out by a sample, and leave it to the next."""
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "test_sharing.py").write_text(SHARING)
    (tmp_path / "look.py").write_text(
        "def pytest_runtest_logreport(report):\n"
        "    if report.when == 'teardown':\n"
        "        print('told', report.nodeid, [k for k, _ in report.user_properties])\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "look", "--costs=costs.tsv"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(tmp_path)])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    told = [line.split(" ", 2)[1:] for line in done.stdout.splitlines() if "told " in line]
    assert len(told) == 3, done.stdout + done.stderr
    marks = [name for name, keys in told if "'fixture test_sharing.py::shared'" in keys]
    assert marks == ["test_sharing.py::test_first"]
    assert [keys.count("'seconds'") for _, keys in told] == [2] * 3, "its set-up and its call"

    def make(name: str, *fixtures: str) -> SimpleNamespace:
        added: list[str] = []
        return SimpleNamespace(
            nodeid=f"a.py::{name}",
            fixturenames=fixtures,
            get_closest_marker=lambda _: None,
            add_marker=lambda mark: added.append(mark.args[0]),
            added=added,
        )

    items = [make("test_a", "long"), make("test_b", "short"), make("test_c", "long", "short")]
    group_by_fixtures(items, {"a.py::long": 3.0, "a.py::short": 0.05})
    assert [item.added for item in items] == [["a.py"], [], ["a.py"]]


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


def test_every_test_asserts_something() -> None:
    """By itself, or through what it calls: a reader that returned nothing passes no test."""
    files = sorted(TESTS.rglob("test_*.py"))
    assert [f"{p.relative_to(ROOT)}: {name}" for p in files for name in list_without(p)] == []


def test_an_assertion_is_found_through_what_a_test_calls(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "from functools import partial\n"
        "from support.damage import survive_damage\n"
        "from support.campaigns import sample\n"
        "def judge(n):\n    assert n\n"
        "judged = partial(judge, 1)\n"
        "def test_plain():\n    assert 1\n"
        "def test_called():\n    judged()\n"
        "def test_imported(tmp_path):\n    survive_damage(len, tmp_path, '')\n"
        "def test_empty():\n    sample([], 1)\n"
        "TEXT = '''\ndef test_text():\n    pass\n'''\n"
        "def test_last(\n    tmp_path,\n) -> None:\n    print(tmp_path)\n\n    len('assert')\n"
    )
    assert list(list_without(tmp_path / "test_a.py")) == ["test_empty", "test_last"]


# What a test replaces belongs to the plan: a parameter, or a name without an underscore. Of the
# names that others hide (the last two are pynvml's) these are left: fewer is better, more is not.
HIDDEN_AND_PATCHED = 9
PATCHED = re.compile(
    r"""\.setattr\(\s*(?:"[\w.]*\._[a-zA-Z]|[\w.]*\._[a-zA-Z]\w*,|[^,()"]+,\s*"_(?!_))"""
)


def test_hidden_names_are_not_patched() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__)
        for match in PATCHED.finditer(path.read_text("utf-8"))
    ]
    said = "\n".join(
        ["make it a parameter or a public name; or, of fewer, lower the number", *found]
    )
    assert len(found) == HIDDEN_AND_PATCHED, said


@pytest.mark.parametrize(
    ("line", "is_hidden"),
    [
        ('monkeypatch.setattr(store, "_commit", f)', True),
        ('patch.setattr(\n        kept.shelf, "_least", 1)', True),
        ('monkeypatch.setattr("a.b._streams.WAIT_S", 1)', True),
        ('monkeypatch.setattr(own.store._journal, "append", fail)', True),
        ('monkeypatch.setattr(backends, "__path__", [])', False),
        ('monkeypatch.setattr("a.b.MOST_S", 1)', False),
        ('monkeypatch.setattr(store, "MOST", _few)', False),
    ],
)
def test_which_patched_names_are_hidden(line: str, is_hidden: bool) -> None:
    assert bool(PATCHED.search(line)) == is_hidden
