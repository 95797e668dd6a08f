"""What docs/contributing.md says is enough: its example members work without any other edit.

The code is the page's own. Once it is a package of somebody else's, registered by entry points, and
once files dropped into the folders of a copy of the source.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sightline
from sightline import _native
from support.html_pages import read_data
from support.pages import blocks, members_of_the_guide

# Two kernels of 1 µs in a window of 10 µs; the last line is cut off.
LOG = "MYPROF 1\n0 1000 gemm\n9000 1000 void add<float>\n10\n"
MEMBERS = members_of_the_guide()
FORMAT = next(place for place in MEMBERS if place.endswith("/my_format"))
TESTS = Path(__file__).parent
ENTRY_POINT = re.compile(r'^\[project\.entry-points\."(.*)"\]\n(\w+) = "(.*)"$', re.MULTILINE)
GROUPS = {
    "analyses": "my_question",
    "importers": "my_format",
    "rules": "my_problem",
    "panels": "my_panel",
    "backends": "mytrace",
}


def test_the_guide_has_one_of_each() -> None:
    folders = {Path(place).name: Path(place).parts for place in MEMBERS}
    assert sorted(folders) == sorted(GROUPS.values())
    assert folders.pop(GROUPS["importers"])[0] == "formats"
    assert folders.pop(GROUPS["backends"])[:-1] == ("record", "collect", "backends")
    # The members of a subject lie in one folder of it, of their kind.
    assert {parts[0] for parts in folders.values()} == {"subjects"}
    assert len({parts[1] for parts in folders.values()}) == 1
    assert {name: parts[2] for name, parts in folders.items()} == {
        name: kind for kind, name in GROUPS.items() if kind not in ("importers", "backends")
    }


def as_a_package(folder: Path) -> None:
    """A package beside sightline, with the metadata that an installer would write."""
    package, metadata = folder / "my_package", folder / "my_package-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text("")
    for place, code in MEMBERS.items():
        (package / f"{Path(place).name}.py").write_text(code)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (toml,) = [block for block in blocks("toml") if "entry-points" in block.text]
    points = re.findall(
        r'^\[project\.entry-points\."(.*)"\]\n(\w+) = "(.*)"$', toml.text, re.MULTILINE
    )
    assert {group: name for group, name, _ in points} == {
        f"sightline.{kind}": name for kind, name in GROUPS.items()
    }
    text = "\n".join(f"[{group}]\n{name} = {module}\n" for group, name, module in points)
    (metadata / "entry_points.txt").write_text(text)


def copy_source(folder: Path) -> None:
    """sightline's own files, and its compiled reader."""
    source = Path(sightline.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, folder / "sightline", ignore=ignored)
    compiled = Path(_native.__file__ or "")
    shutil.copy(compiled, folder / "sightline" / compiled.name)


def as_files(folder: Path) -> None:
    """The files in the folders that the guide names, of a copy of the source."""
    copy_source(folder)
    for place, code in MEMBERS.items():
        (folder / "sightline" / f"{place}.py").write_text(code)


@pytest.fixture(scope="module", params=[as_a_package, as_files], ids=lambda made: made.__name__)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newcomer")
    request.param(folder)
    (folder / "run.myp").write_text(LOG)
    return folder


def answer(place: Path, *words: str) -> str:
    """What the command prints in a new process."""
    return ran(place, "sightline.doors.cli.main", *words)


def ran(place: Path, module: str, *words: str) -> str:
    """What a module prints as a program; where the source was copied, it works with the copy."""
    copied = (place / "sightline").is_dir()
    if copied:
        # An editable installation finds `sightline` by a hook of its own, before any folder.
        code = (
            "import sys\n"
            "sys.meta_path[:] = [f for f in sys.meta_path if isinstance(f, type)]\n"
            f"sys.path.insert(0, {str(place)!r})\n"
            "import sightline\n"
            f"assert sightline.__file__.startswith({str(place)!r}), sightline.__file__\n"
            "import runpy\n"
            f"sys.argv[0] = {module!r}\n"
            f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
        )
        command = [sys.executable, "-c", code, *words]
    else:
        command = [sys.executable, "-m", module, *words]
    folders = os.pathsep.join((str(place), str(TESTS)))
    environment = {**os.environ, "PYTHONPATH": folders, "SIGHTLINE_CACHE": str(place / "cache")}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_analysis_is_listed_and_answers(place: Path) -> None:
    assert "Which stream was used most?" in answer(place, "analyses")
    rows = json.loads(answer(place, "stats", "my_question", "run.myp", "--format", "json"))
    assert rows == [{"rank": 0, "stream_id": 0, "busy_ns": 2_000}]


def test_the_importer_is_listed_and_says_what_was_lost(place: Path) -> None:
    assert "My profiler's log" in answer(place, "formats")
    report = json.loads(answer(place, "report", "run.myp", "--json"))
    assert report["recordings"][0]["tool"] == "My profiler"
    assert {"bad_lines"} <= {limit["kind"] for limit in report["limits"]}


def test_the_rule_finds_its_problem_and_is_explained(place: Path) -> None:
    found = {f["rule"]: f for f in json.loads(answer(place, "findings", "run.myp", "--json"))}
    assert found["my-problem"]["cost_ns"] == 8_000
    assert "80.0 %" in found["my-problem"]["summary"]
    page = answer(place, "explain", "my-problem")
    assert "Hardly any kernels on the timeline." in page
    assert "my-problem" in answer(place, "rules")


def test_the_backend_is_listed_and_says_what_is_missing(place: Path) -> None:
    assert "unitrace, mytrace, cpu" in " ".join(answer(place, "run", "--help").split())
    assert "Stalls (mytrace)" in answer(place, "doctor")


def test_the_rules_own_test_passes(place: Path) -> None:
    (example,) = [b for b in blocks("python") if "def test_800_of_1000_us" in b.text]
    (place / "test_my_problem.py").write_text(example.text)
    printed = ran(
        place, "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_my_problem.py"
    )
    assert "2 passed" in printed


def test_a_package_tests_itself_with_what_is_public(tmp_path: Path) -> None:
    """By `sightline.testing` alone: nothing of this folder is on its path."""
    as_a_package(tmp_path)
    (example,) = [b for b in blocks("python") if "check_importer" in b.text]
    (tmp_path / "test_my_package.py").write_text(example.text)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "test_my_package.py")
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "SIGHTLINE_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_panel_is_on_the_page(place: Path) -> None:
    answer(place, "report", "run.myp", "-o", "page.html")
    panels = {
        panel["title"]: panel for panel in read_data((place / "page.html").read_bytes())["panels"]
    }
    (table,) = panels["Busiest streams"]["blocks"]
    assert table["kind"] == "table"


def check_conformance(place: Path, *names: str) -> None:
    """What the house asks of every member holds for these, and was asked of each."""
    tests = [str(TESTS / "test_conformance.py"), "-k", " or ".join(names)]
    printed = ran(place, "pytest", "-v", "-p", "no:cacheprovider", *tests)
    for name in names:
        assert len(re.findall(rf"{name}.* PASSED", printed)) >= 1, printed


def test_what_the_house_asks_of_all_members_holds_for_them(place: Path) -> None:
    check_conformance(place, *GROUPS.values())


@pytest.mark.campaign
def test_a_subject_is_one_folder(tmp_path: Path) -> None:
    """Its facts, an analysis, a rule and a panel, dropped into a copy; no other file is touched."""
    (declared,) = [b for b in blocks("python") if "SUBJECT = Subject(" in b.text]
    copy_source(tmp_path)
    folder = tmp_path / "sightline" / "subjects" / "streams"
    for place, code in MEMBERS.items():
        kind, name = Path(place).parts[-2:]
        if kind in ("analyses", "rules", "panels"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            (folder / kind / f"{name}.py").write_text(code)
    (folder / "__init__.py").write_text(declared.text)
    (folder / "facts.py").write_text('"""What this subject shares."""\n\nIDLE_PCT = 50.0\n')
    rule = folder / "rules" / "my_problem.py"
    shared = "from sightline.subjects.streams.facts import IDLE_PCT\n"
    rule.write_text(rule.read_text().replace("IDLE_PCT = 50.0\n", shared))
    (tmp_path / "run.myp").write_text(LOG)
    (tmp_path / "sightline" / f"{FORMAT}.py").write_text(MEMBERS[FORMAT])

    found = json.loads(answer(tmp_path, "findings", "run.myp", "--json"))
    assert "my-problem" in {f["rule"] for f in found}
    answer(tmp_path, "report", "run.myp", "-o", "page.html")
    assert "Busiest streams" in str(read_data((tmp_path / "page.html").read_bytes())["panels"])
    check_conformance(tmp_path, "my_problem", "my_question", "my_panel")
