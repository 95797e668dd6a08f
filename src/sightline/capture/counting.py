"""What a job does between the windows of its continuous profile: rates of its GPU calls.

They are counted by eBPF in a process of its own (counter.py), which needs root's rights, loads what
would be three times the daemon's memory, and ends when the daemon does, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from sightline.errors import RequestError

PREFIX = "between:"  # of the metrics of a history that are of the time between windows
_BEGIN_S = 60.0  # to load and to measure what a call costs
_ANSWER_S = 30.0  # to look for functions in files of PyTorch's size


class Counting:
    """The process that counts. Raises RequestError where it cannot."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        """`command`: what counts, if not our own program."""
        words = [sys.executable, "-m", "sightline.capture.counter"]
        self._lock = threading.Lock()
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own module
                command or words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True, bufsize=1,
            )  # fmt: skip
        except OSError as error:
            raise RequestError(_WHAT, why=(error.strerror or str(error)).lower()) from error
        told = self._read(_BEGIN_S)
        if told is None or "call_ns" not in told:
            self.close()
            why = "the counting process ended" if told is None else str(told.get("problem"))
            raise RequestError(_WHAT, why=why, hint="To record without counts, leave out --counts")
        self.call_ns = float(told["call_ns"])
        self._watched: dict[str, list[int]] = {}

    def watch(self, jobs: Mapping[str, list[int]]) -> None:
        """Count these processes of these jobs from now on."""
        wanted = {job: sorted(pids) for job, pids in jobs.items()}
        if wanted != self._watched and self._ask({"watch": wanted}) is not None:
            self._watched = wanted

    def take(self, job: str) -> dict[str, float]:
        """Rates of a process of the job, a second, since the last time; none are known at first."""
        told = self._ask({"take": job})
        rates = (told or {}).get("rates") or {}
        return {f"{PREFIX}{name}": float(value) for name, value in rates.items()}

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, or answers no longer."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End it: it takes its probes away."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            with contextlib.suppress(OSError):  # it has ended
                self._process.stdin.close()
            try:
                self._process.wait(_ANSWER_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where there is none any more."""
        assert self._process.stdin is not None
        with self._lock:
            if self.is_over or self._process.stdin.closed:
                return None
            try:
                self._process.stdin.write(json.dumps(question) + "\n")
            except OSError:
                return None
            return self._read(_ANSWER_S)

    def _read(self, most_s: float) -> dict[str, Any] | None:
        """One line. A process that does not answer is ended: its next line would be another's."""
        stream = self._process.stdout
        assert stream is not None
        if not select.select([stream], [], [], most_s)[0]:
            self._process.kill()
            self._process.wait()
            return None
        try:
            told = json.loads(stream.readline())
        except ValueError:  # it has ended, in the middle of a line perhaps
            return None
        return told if isinstance(told, dict) else None


_WHAT = "calls cannot be counted between the windows"
