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
from support.pages import blocks, members_of_the_guide

# Two kernels of 1 µs in a window of 10 µs; the last line is cut off.
LOG = "MYPROF 1\n0 1000 gemm\n9000 1000 void add<float>\n10\n"
MEMBERS = members_of_the_guide()
TESTS = Path(__file__).parent
ENTRY_POINT = re.compile(r'^\[project\.entry-points\."(.*)"\]\n(\w+) = "(.*)"$', re.MULTILINE)
GROUPS = {
    "analyses": "my_question",
    "importers": "my_format",
    "rules": "my_problem",
    "collect.backends": "mytrace",
}


def test_the_guide_has_one_of_each() -> None:
    folders = {Path(place).name: place.rpartition("/")[0].replace("/", ".") for place in MEMBERS}
    assert folders == {name: kind for kind, name in GROUPS.items()} | {"my_problem": "rules.idle"}


def as_a_package(folder: Path) -> None:
    """A package beside sightline, with the metadata that an installer would write."""
    package, metadata = folder / "my_package", folder / "my_package-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text("")
    for place, code in MEMBERS.items():
        (package / f"{Path(place).name}.py").write_text(code)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (toml,) = blocks("toml")
    points = re.findall(
        r'^\[project\.entry-points\."(.*)"\]\n(\w+) = "(.*)"$', toml.text, re.MULTILINE
    )
    assert {group: name for group, name, _ in points} == {
        f"sightline.{kind}": name for kind, name in GROUPS.items()
    }
    text = "\n".join(f"[{group}]\n{name} = {module}\n" for group, name, module in points)
    (metadata / "entry_points.txt").write_text(text)


def as_files(folder: Path) -> None:
    """The files in the folders that the guide names, of a copy of the source."""
    source = Path(sightline.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "assets")
    shutil.copytree(source, folder / "sightline", ignore=ignored)
    compiled = Path(_native.__file__ or "")
    shutil.copy(compiled, folder / "sightline" / compiled.name)
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
    return ran(place, "sightline.cli.main", *words)


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
    assert "my_problem" in answer(place, "rules")


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
