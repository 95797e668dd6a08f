"""One command in a process of its own that may have 8 GB and 60 s, forked or started anew.

A forked child comes from a process that has loaded sightline and computed nothing, so that only
the command itself takes time: 0.1 s of processor time instead of 0.8 s. It is the real command
from its arguments to its exit code, with its own memory, signals, folder, output files and limits.
What it does not try is what lies before and after: how Python starts and ends, `atexit`, and what
the order of imports changes. So a sample of the inputs is also given to a fresh interpreter, and
both must say the same.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sightline.core import registry
from sightline.doors.cli.main import main as run_command

MEMORY_BYTES, LONGEST_S = 8 << 30, 60
SLOW_S = 10  # of processor time: what is asked of each damaged input
# A child that waits for nothing: on a busy machine 60 s of its own can take longer than a minute.
LONGEST_WAIT_S = 5 * LONGEST_S
# Loaded once instead of in each child.
_PACKAGES = ("sightline", "polars", "rich", "google", "yaml", "simpleeval")


@dataclass(frozen=True)
class Place:
    """Where a child works: its folder, its cache, and the programs that stand in for tools."""

    folder: Path
    cache: Path
    programs: Path

    @property
    def variables(self) -> dict[str, str]:
        """What differs in the child's environment."""
        return {
            "SIGHTLINE_CACHE": str(self.cache),
            # Small, so that entries are removed while others are read.
            "SIGHTLINE_CACHE_BYTES": str(50 << 20),
            "TMPDIR": str(self.folder),
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "POLARS_MAX_THREADS": "1",
        }


@dataclass(frozen=True)
class Outcome:
    """What a child left behind."""

    code: int | None  # None: ended by a signal
    hung: bool
    out: bytes
    err: str
    seconds: float


def run_forked(words: list[str], place: Place) -> Outcome:
    """The command in a fork of this process."""
    began = time.monotonic()
    return await_child(start_forked(words, place), began, place)


def start_forked(
    words: list[str], place: Place, begin: float = 0.0, prepare: Callable[[], None] | None = None
) -> int:
    """The process of the command in a fork, which begins at a moment of the monotonic clock.

    `prepare` is called in it before the command is.
    """
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setsid()
            _limit()
            for number, path in ((1, place.folder / "out"), (2, place.folder / "err")):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="utf-8")
            sys.stderr = io.TextIOWrapper(io.FileIO(2, "wb", closefd=False), encoding="utf-8")
            os.environ.update(place.variables)
            tempfile.tempdir = str(place.folder)
            os.chdir(place.folder)
            if prepare is not None:
                prepare()
            time.sleep(max(0.0, begin - time.monotonic()))
            try:
                code = run_command(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return pid


def run_fresh(words: list[str], place: Place) -> Outcome:
    """The command as a person starts it: in a new interpreter."""
    began = time.monotonic()
    with (place.folder / "out").open("wb") as out, (place.folder / "err").open("wb") as err:
        child = subprocess.Popen(
            [sys.executable, "-m", "sightline", *words],
            cwd=place.folder,
            env={**os.environ, **place.variables, "PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_limit,
        )
    outcome = await_child(child.pid, began, place)
    child.returncode = outcome.code or 0  # it has been waited for
    return outcome


def run_apart(work: Callable[[], None]) -> None:
    """Call a function in a fork of this process, and wait for it: Polars' threads stay there."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def load_ahead(commands: list[list[str]], place: Place) -> None:
    """Load here what commands load: each child would do it again, which is half of its time.

    Nothing is computed in this process, so that it has no threads, which no fork survives.
    """
    for kind in ("importers", "analyses", "rules", "exporters", "tables"):
        list(registry.load_members(kind))
    listed = place.folder / "modules"

    def ask() -> None:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
        os.environ.update(place.variables)
        os.chdir(place.folder)
        for words in commands:
            run_command(words)
        listed.write_text("\n".join(sys.modules))

    run_apart(ask)
    for name in listed.read_text().splitlines():
        if name.split(".")[0] in _PACKAGES:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def await_child(pid: int, began: float, place: Place) -> Outcome:
    """Wait for a child within its time; what it started goes with it."""
    descriptor = os.pidfd_open(pid)
    try:
        ready, *_ = select.select([descriptor], [], [], LONGEST_WAIT_S)
    finally:
        os.close(descriptor)
    if not ready:
        os.killpg(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    hung = not ready or used.ru_utime + used.ru_stime >= SLOW_S
    return Outcome(
        code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        hung=hung,
        out=(place.folder / "out").read_bytes(),
        err=(place.folder / "err").read_text(errors="replace"),
        seconds=time.monotonic() - began,
    )
