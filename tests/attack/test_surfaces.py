"""Attacks on surfaces of recording, watching, asking and searching that no other file has.

docs/security.md lists all of them, each with the test that plays it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.record.monitor.notices import Notifier
from sightline.record.monitor.readings import Entity, Event
from support import recording, traces
from support.command import sightline

PLAIN = ("--no-report", "--backend", "torch")
# Put a file, or a link to somebody's folder, where the recorded program's output folder was.
REPLACED = """\
import json, os, shutil, sys
import sightline as sl
folder = json.loads(os.environ["SIGHTLINE_RUN"])["folder"]
shutil.rmtree(folder)
if sys.argv[1] == "file":
    open(folder, "w").write("mine")
else:
    os.symlink(sys.argv[1], folder)
with sl.annotate("x"):
    print(6 * 7)
sys.exit(5)
"""


@pytest.mark.parametrize("by", ["file", "link"])
def test_an_output_folder_that_the_program_replaces(tmp_path: Path, by: str) -> None:
    """The program's own output and code; no file is written through the link."""
    victim = tmp_path / "somebody's folder"
    victim.mkdir()
    (victim / "thesis").write_text("years of work")
    given = "file" if by == "file" else str(victim)
    done = recording.run(
        *PLAIN, "-o", "r", "--", sys.executable, "-c", REPLACED, given, cwd=tmp_path
    )
    assert (done.stdout, done.returncode) == ("42\n", 5), done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in victim.iterdir()] == ["thesis"]
    assert (victim / "thesis").read_text() == "years of work"


@pytest.mark.parametrize(
    "name",
    ["$(touch evil)", "`touch evil`", "; touch evil;", "a\nb", "' \" \\", "-rf /", "\x1b]0;x\x07"],
)
def test_names_of_devices_and_metrics_are_no_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A policy's command has them on its standard input, as JSON; no shell sees them."""
    monkeypatch.chdir(tmp_path)
    failed: list[str] = []
    notifier = Notifier(None, "tee seen", failed.append)
    notifier.send(Event(10**18, "policy-violated", Entity(name, 0, name), name))
    notifier.close()
    assert failed == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen"]
    assert name in json.loads((tmp_path / "seen").read_text()).values()


def _git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "rev", ["--output=evil", "-h", "--exec=touch evil", "-", "", "main; touch x"]
)
def test_revisions_that_git_would_take_for_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rev: str
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    _git(repository, "init", "-q", "-b", "main")
    (repository / "a").write_text("1")
    _git(repository, "add", ".")
    _git(repository, "commit", "-q", "-m", "one")
    monkeypatch.chdir(repository)
    done = sightline(
        "history", "bisect", "--history", str(tmp_path / "h"), f"--good={rev}", "--bad=main",
        "--", "touch", "ran",
    )  # fmt: skip
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert sorted(path.name for path in repository.iterdir()) == [".git", "a"]


@pytest.mark.parametrize("form", ["--json", "--format=csv", "--format=table"])
def test_lists_of_different_lengths_in_an_answer(tmp_path: Path, form: str) -> None:
    path = traces.write(tmp_path, [traces.kernel("gemm", 20, 100, 1)])
    query = "SELECT [1, 2] AS a, {'x': 1} AS b UNION ALL SELECT [1], NULL UNION ALL SELECT [], NULL"
    done = sightline("sql", path, query, form)
    assert done.code == 0, done.err


def test_each_test_that_the_table_names_is_there() -> None:
    """docs/security.md says of each attack which test plays it."""
    root = Path(__file__).resolve().parents[2]
    table = (root / "docs" / "security.md").read_text().partition("## How it is attacked")[2]
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`", table)
    assert len(named) > 50
    for path, test in named:
        place = root / path
        assert place.exists(), path
        assert not test or f"def {test}(" in place.read_text(), (path, test)
