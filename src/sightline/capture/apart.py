"""Reduces captures in processes of their own, behind all others, one at a time for each.

What they load would be three times the daemon's own memory, for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

MOST_S = 600.0  # a node of eight ranks takes some seconds


class Apart:
    """The processes of a node, none of which outlives it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._begun: dict[Path, subprocess.Popen[str]] = {}  # by the capture's folder
        self._is_closed = False

    def begin(self, folder: Path) -> None:
        """Have what reduces a capture load what it needs, while its programs still record."""
        with contextlib.suppress(OSError):
            self._begun[folder] = self._start(folder, "ranks")

    def drop(self, folder: Path) -> None:
        """End what was begun for a capture and is not needed any more."""
        process = self._begun.pop(folder, None)
        if process is not None:
            process.kill()
            process.communicate()
            self._forget(process)

    def reduce(self, folder: Path, facts: dict[str, Any]) -> str | None:
        """Leave the ranks of a capture beside its traces; what went wrong, or None."""
        problem = self._work(folder, "ranks", facts)
        return None if problem is None else f"the ranks could not be reduced: {problem}"

    def fingerprint(self, folder: Path, facts: dict[str, Any]) -> str | None:
        """Leave the capture's fingerprint beside its ranks; what went wrong, or None."""
        problem = self._work(folder, "fingerprint", facts)
        what = "the window was not passed on" if facts.get("history") else "no fingerprint was made"
        return None if problem is None else f"{what}: {problem}"

    def close(self) -> None:
        """End what runs; nothing is begun any more."""
        with self._lock:
            self._is_closed = True
            for process in self._running:
                process.kill()

    def _start(self, folder: Path, work: str) -> subprocess.Popen[str]:
        """The process, which waits for the run's facts. Raises OSError."""
        # Reading several ranks beside each other would take processors from the program.
        env = {**os.environ, "POLARS_MAX_THREADS": "1", "SIGHTLINE_CACHE": str(folder / ".cache")}
        words = [sys.executable, "-m", "sightline.capture.reduce", str(folder), work]
        with self._lock:
            if self._is_closed:
                raise InterruptedError("the daemon ends")
            process = subprocess.Popen(  # noqa: S603  # our own module
                words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, errors="replace", env=env,
            )  # fmt: skip
            self._running.add(process)
        return process

    def _work(self, folder: Path, work: str, facts: dict[str, Any]) -> str | None:
        begun = self._begun.pop(folder, None) if work == "ranks" else None
        try:
            process = begun or self._start(folder, work)
        except OSError as error:
            return str(error)
        with process:
            try:
                _, told = process.communicate(json.dumps(facts), timeout=MOST_S)
            except subprocess.TimeoutExpired:
                process.kill()
                told = f"it took more than {MOST_S:g} s"
            finally:
                self._forget(process)
        if process.returncode == 0:
            return None
        return (told.strip() or "killed").splitlines()[-1]

    def _forget(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._running.discard(process)
