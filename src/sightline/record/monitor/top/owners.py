"""Whose a process is, and what it runs: for the screen only, never written anywhere."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import psutil


class Owner(NamedTuple):
    """User and command; a dash for what may not be seen, or is of another container."""

    user: str
    command: str


class Owners:
    """Asked once for each process, and again when a number is used anew."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[float, Owner]] = {}

    def __call__(self, pid: int) -> Owner:
        """Whose the process is."""
        try:
            process = psutil.Process(pid)
            began = process.create_time()
            known = self._known.get(pid)
            if known is None or known[0] != began:
                words = process.cmdline() or [process.name()]
                known = began, Owner(process.username(), shlex.join(words))
                self._known[pid] = known
            return known[1]
        except psutil.Error:
            return Owner("—", "—")
