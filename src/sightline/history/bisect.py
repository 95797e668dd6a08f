"""The commit that made a program slower: `git bisect`, decided by runs of each commit.

Everything happens in a working tree of its own, so that the person's is not touched. Runs go into
the history under their commit, and those that it holds already are not recorded again.
"""

from __future__ import annotations

import contextlib
import glob
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from sightline.compare.sample import Sample
from sightline.compare.sides import open_side
from sightline.compare.statistics import Spread, compare_runs
from sightline.core.units import format_pct
from sightline.errors import InputError, MissingDataError, RequestError
from sightline.history.history import add_run, list_metrics, read_fingerprints

_FIRST_BAD = re.compile(r"^([0-9a-f]{40,64}) is the first ('?)bad\2 commit", re.MULTILINE)


_GRACE_S = 10.0  # for a benchmark to end by itself: what `docker stop` gives


@dataclass(frozen=True)
class Search:
    """What is run on each commit: a command that records, or `recording`, a file that it leaves.

    `runs` of each commit are compared in `metric`; `history` is the folder where they are kept.
    """

    command: Sequence[str]
    history: Path
    runs: int
    metric: str
    recording: str | None


@dataclass(frozen=True)
class Found:
    """The first commit with the change, and its runs after those of the commit before."""

    commit: str
    before: list[Sample]
    after: list[Sample]


def find_commit(
    search: Search, good: str, bad: str, tell: Callable[[str, float | None], None]
) -> Found:
    """The commit between `good` and `bad` with which the metric changed. Raises RequestError.

    A commit belongs to the side whose runs it is nearer to, on a logarithmic scale. Commits on
    which the command fails are skipped. `tell` is told each answer.
    """
    root = Path(_git(Path(), "rev-parse", "--show-toplevel"))
    below = _git(Path(), "rev-parse", "--show-prefix")
    ends = [_git(root, "rev-parse", "--verify", f"{rev}^{{commit}}") for rev in (good, bad)]
    with _make_tree(root, ends[1]) as tree:

        def measure(commit: str) -> list[Sample]:
            samples = _measure_commit(search, commit, tree, tree / below)
            level = math.exp(_average(samples, search.metric)) if samples else None
            tell(commit, level)
            return samples

        sides = [measure(commit) for commit in ends]
        _check_ends(search, ends, sides)
        levels = [_average(side, search.metric) for side in sides]

        def judge() -> str:
            samples = measure(_git(tree, "rev-parse", "HEAD"))
            if not samples:
                return "skip"
            own = _average(samples, search.metric)
            return "bad" if abs(own - levels[1]) < abs(own - levels[0]) else "good"

        commit = _drive(tree, ends, judge)
        parent = _git(tree, "rev-parse", f"{commit}^")
        # Of a merge the first parent may be one that cannot be run.
        return Found(commit, measure(parent) or sides[0], measure(commit))


def _drive(tree: Path, ends: Sequence[str], judge: Callable[[], str]) -> str:
    """Let git choose commits, each judged good, bad or skip, until the first bad one is known."""
    said = _git(tree, "bisect", "start", ends[1], ends[0])
    while (found := _FIRST_BAD.search(said)) is None:
        said = _git(tree, "bisect", judge())
    return found[1]


def _check_ends(search: Search, ends: Sequence[str], sides: Sequence[Sequence[Sample]]) -> None:
    """Raise RequestError where the two ends do not differ, or one cannot be run."""
    for commit, side in zip(ends, sides, strict=True):
        if not side:
            raise RequestError(
                f"the command fails on {commit[:12]}", why="so it cannot be an end of the search"
            )
    one, other = ([Spread(1, v) for v in _list_values(side, search.metric)] for side in sides)
    difference = compare_runs(one, other)
    if not difference.is_significant:
        change = "nothing" if difference.ratio is None else format_pct(100 * (difference.ratio - 1))
        raise RequestError(
            "there is nothing to find",
            why=f"{search.metric} of the two commits differs by {change}, which is within noise",
            hint="More runs of each tell smaller changes apart:  --runs 10",
        )


def _average(samples: Sequence[Sample], metric: str) -> float:
    """The mean logarithm of the runs' values."""
    return fmean(math.log(value) for value in _list_values(samples, metric))


def _list_values(samples: Sequence[Sample], metric: str) -> list[float]:
    found = [list_metrics(sample).get(metric, 0.0) for sample in samples]
    if not all(value > 0 for value in found):
        raise RequestError(
            f"a run has no '{metric}'", hint="What there is:  sightline history list --metrics"
        )
    return found


def _measure_commit(search: Search, commit: str, tree: Path, place: Path) -> list[Sample]:
    """So many runs of a commit: those that the history has, and the rest recorded now.

    None at all where its command fails.
    """
    known = len(read_fingerprints(search.history, commit))
    if known < search.runs:
        _git(tree, "checkout", "--quiet", "--force", "--detach", commit)
    for _ in range(known, search.runs):
        with tempfile.TemporaryDirectory(prefix="sightline-bisect-") as scratch:
            found = _record(search, place, Path(scratch))
            if not found:
                return []
            add_run(search.history, found[0], {"commit": commit}, time.time_ns())
    return read_fingerprints(search.history, commit)[: search.runs]


def _record(search: Search, place: Path, scratch: Path) -> list[Sample]:
    command, recording = list(search.command), search.recording
    if recording is not None:
        _remove_old(place, recording)
    else:
        folder = scratch / "run.sightline"
        own = [sys.executable, "-m", "sightline", "run", "--no-report", "-o", str(folder), "--"]
        command, recording = own + command, str(folder)
    try:
        code = _run(command, place)
    except OSError as error:
        raise InputError(f"cannot run {command[0]}", why=(error.strerror or "").lower()) from error
    try:
        # Joined by hand: it may be a pattern, or lie elsewhere.
        return [] if code else open_side([os.path.join(place, recording)])  # noqa: PTH118
    except (InputError, MissingDataError):
        return []


def _run(command: Sequence[str], place: Path) -> int:
    """The exit code of the command, which ends, with all of its group, where we are interrupted."""
    # What it prints is no answer of ours: it goes to standard error.
    process = subprocess.Popen(  # noqa: S603
        command, cwd=place, stdout=2, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait()
    except BaseException:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(_GRACE_S)
        raise


@contextlib.contextmanager
def _end_in_order() -> Iterator[None]:
    """For that time a stop by SIGTERM is an exception, so that nothing of ours is left behind."""

    def stop(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: it is being cleaned up
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # signal(2) is its only
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _remove_old(place: Path, recording: str) -> None:
    """Remove what the command wrote for another commit, where it is in our own working tree."""
    # Joined by hand: it may be a pattern, or lie elsewhere.
    for name in glob.glob(os.path.join(place, recording)):  # noqa: PTH118
        path = Path(name).resolve()
        if path.is_relative_to(place.resolve()) and path.is_file():
            path.unlink()


@contextlib.contextmanager
def _make_tree(root: Path, commit: str) -> Iterator[Path]:
    """A working tree of a commit in a temporary folder, whose bisection is its own."""
    with _end_in_order(), tempfile.TemporaryDirectory(prefix="sightline-bisect-") as folder:
        tree = Path(folder) / "tree"
        try:
            _git(root, "worktree", "add", "--quiet", "--detach", str(tree), commit)
            yield tree
        finally:
            with contextlib.suppress(InputError, OSError):
                _git(tree, "bisect", "reset", commit)
            with contextlib.suppress(InputError):
                _git(root, "worktree", "remove", "--force", str(tree))


def _git(place: Path, *words: str) -> str:
    """What git prints. Raises InputError with what it complains of."""
    git = shutil.which("git")
    if git is None:
        raise InputError("git is not installed")
    done = subprocess.run(  # noqa: S603
        [git, *words], cwd=place, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise InputError(f"git {words[0]} failed", why=told[-1] if told else None)
    return done.stdout.strip()
