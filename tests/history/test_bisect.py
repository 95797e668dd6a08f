"""The commit that made a program slower, found in a real repository."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sightline.history.history import read_runs
from support.command import sightline
from support.places import TESTS

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

# The program writes a recording of itself: a step whose softmax takes FACTOR times as long. Its
# noise differs from run to run by the lines of a file that all runs share, and not by chance: three
# runs of one commit differ significantly from three of another in one of twenty tries.
BENCH = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from compare.programs import Program, write_runs
exec(Path("settings.py").read_text())
runs = Path(os.environ["RUNS_SO_FAR"])
with runs.open("a") as file:
    file.write("run\\n")
number = len(runs.read_text().splitlines())
program = Program(steps=6).slowed("softmax", FACTOR)
(path,) = write_runs(Path("out"), program, 1, str(number))
Path(path).replace("trace.json")
"""


def _git(folder: Path, *words: str) -> str:
    told = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True,
        env={**os.environ, **told, **names},
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Eight commits: the fourth records nothing; from the sixth on softmax takes 1.6 times."""
    folder = tmp_path / "repository"
    folder.mkdir()
    _git(folder, "init", "-q", "-b", "main")
    (folder / "bench.py").write_text(BENCH)
    for number in range(1, 9):
        failing = "raise SystemExit(0)" if number == 4 else ""
        factor = 1.6 if number >= 6 else 1.0
        (folder / "settings.py").write_text(f"FACTOR = {factor}  # {number}\n{failing}\n")
        _git(folder, "add", ".")
        _git(folder, "commit", "-q", "-m", f"commit {number}")
    return folder


def _bisect(repository: Path, monkeypatch: pytest.MonkeyPatch, *words: str, good: str, bad: str):
    monkeypatch.chdir(repository)
    monkeypatch.setenv("RUNS_SO_FAR", str(repository.parent / "runs.txt"))
    return sightline(
        "history", "bisect", "--history", repository.parent / "history", "--good", good,
        "--bad", bad, *words, "--recording", "trace.json", "--", sys.executable, "bench.py",
    )  # fmt: skip


def test_the_commit_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "settings.py").write_text("FACTOR = 1.0  # being edited\n")
    done = _bisect(repository, monkeypatch, good="main~7", bad="main")
    assert done.code == 0, done.err
    expected = _git(repository, "rev-parse", "main~2")
    assert done.out.startswith(f"{expected} is the first commit with the change.\n")
    assert "skipped, the command fails or leaves no recording" in done.err
    assert "Slower by " in done.out
    assert "softmax" in done.out.split("What explains it\n")[1].splitlines()[0]
    # Nothing of the person's is touched, and nothing is left behind.
    assert (repository / "settings.py").read_text() == "FACTOR = 1.0  # being edited\n"
    assert len(_git(repository, "worktree", "list").splitlines()) == 1
    assert _git(repository, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    # Runs are kept under their commits, and not recorded again.
    runs = read_runs(repository.parent / "history", {"commit": expected})
    assert runs.height == 3
    again = _bisect(repository, monkeypatch, good="main~7", bad="main")
    assert again.out.splitlines()[0] == done.out.splitlines()[0]
    assert read_runs(repository.parent / "history", {"commit": expected}).height == 3


def test_a_stop_leaves_no_working_tree_no_folder_and_no_benchmark(
    repository: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    pids = tmp_path / "pids"
    below = f"echo $$ >> {pids}; sleep 60 & echo $! >> {pids}; wait"
    words = ["--history", str(tmp_path / "h"), "--good", "main~7", "--bad", "main"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sightline", "history", "bisect", *words, "--", "sh", "-c", below],
        cwd=repository,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    end = time.monotonic() + 60
    while not (pids.exists() and pids.read_text().count("\n") == 2):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert _git(repository, "worktree", "list").count("\n") == 0
    assert not list(scratch.glob("sightline-bisect-*"))
    for pid in pids.read_text().split():
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.campaign
def test_equal_ends_are_nothing_to_search(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = _bisect(repository, monkeypatch, good="main~7", bad="main~6")
    assert done.code == 2
    assert "there is nothing to find" in done.err
    assert "within noise" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("good", "bad", "words", "said"),
    [
        ("main~4", "main", [], "the command fails on"),
        ("nowhere", "main", [], "git rev-parse failed"),
        ("main~7", "main", ["--metric", "step"], "a run has no 'step'"),
        ("main~7", "main", ["--runs", "1"], "one run does not say how runs differ"),
    ],
)
def test_wrong_requests(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    good: str,
    bad: str,
    words: list[str],
    said: str,
) -> None:
    done = _bisect(repository, monkeypatch, *words, good=good, bad=bad)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert len(_git(repository, "worktree", "list").splitlines()) == 1
