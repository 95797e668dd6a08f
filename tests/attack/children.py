"""One command in a process of its own that may have 8 GB and 60 s, forked or started anew.

A forked child comes from a process that has loaded sightline and computed nothing, so that only
the command itself takes time: 0.1 s of processor time instead of 0.8 s. It is the real command
from its arguments to its exit code, with its own memory, signals, folder, output files and limits.
What it does not try is what lies before and after: how Python starts and ends, `atexit`, and what
the order of imports changes. So a sample of the inputs is also given to a fresh interpreter, and
both must say the same.
"""

from __future__ import annotations

import io
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sightline.cli.main import main as run_command

MEMORY_BYTES, LONGEST_S = 8 << 30, 60
# A child that waits for nothing: on a busy machine 60 s of its own can take longer than a minute.
LONGEST_WAIT_S = 5 * LONGEST_S


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
            try:
                code = run_command(words)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 1
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    return _await(pid, began, place)


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
    outcome = _await(child.pid, began, place)
    child.returncode = outcome.code or 0  # it has been waited for
    return outcome


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _await(pid: int, began: float, place: Place) -> Outcome:
    """Wait for a child within its time; what it started goes with it."""
    descriptor = os.pidfd_open(pid)
    try:
        ready, *_ = select.select([descriptor], [], [], LONGEST_WAIT_S)
    finally:
        os.close(descriptor)
    if not ready:
        os.killpg(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    hung = not ready or used.ru_utime + used.ru_stime >= LONGEST_S
    return Outcome(
        code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        hung=hung,
        out=(place.folder / "out").read_bytes(),
        err=(place.folder / "err").read_text(errors="replace"),
        seconds=time.monotonic() - began,
    )
