"""`sightline run` as a person starts it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "sightline.doors.cli.main", "run"]


def clean(**variables: str) -> dict[str, str]:
    """This process's environment without what a launcher or a run would have put there."""
    left_out = ("SIGHTLINE_RUN", "SIGHTLINE_OFF", "RANK", "WORLD_SIZE", "PYTHONPATH")
    return {k: v for k, v in os.environ.items() if k not in left_out} | variables


def run(
    *words: str | Path,
    cwd: Path,
    env: dict[str, str] | None = None,
    timeout: float = 120,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """The finished process, with its output as text."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=cwd,
        env=env or clean(),
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def start(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Any:
    """The process, with pipes for its output."""
    return subprocess.Popen(
        [*COMMAND, *map(str, words)],
        cwd=cwd,
        env=env or clean(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
