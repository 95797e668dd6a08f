"""How a machine is looked at: its programs, what they print, its files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_S = 10  # nvidia-smi of a machine in trouble can hang for minutes

Runner = Callable[[list[str]], str | None]


def find_program(name: str) -> str | None:
    """A program on the PATH, or beside the Python that runs sightline."""
    beside = Path(sysconfig.get_path("scripts")) / name
    return shutil.which(name) or (str(beside) if beside.exists() else None)


def read_output(command: list[str]) -> str | None:
    """What a program prints, or None where it is missing, fails or hangs."""
    program = find_program(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603  # fixed arguments, no shell
            [program, *command[1:]], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def find_package(name: str) -> str | None:
    """The version of a package of this Python; None where it is not installed."""
    import importlib.metadata  # which takes 30 ms to load

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


class Awaited:
    """Facts that are being found side by side: who asks for one waits for it."""

    def __init__(self) -> None:
        self.futures: dict[str, Future[Any]] = {}

    def __getitem__(self, name: str) -> Any:
        return self.futures[name].result()


@dataclass
class Look:
    """One look at a machine, which tests put a fake one in place of; `facts`: found so far."""

    run: Runner
    root: Path
    asked_nvml: Future[dict[str, Any]]  # machine.ask_nvml's answer
    try_sampling: Callable[[], str | None]
    facts: Awaited = field(default_factory=Awaited)

    @property
    def nvml(self) -> dict[str, Any]:
        """What NVML answered."""
        return self.asked_nvml.result()

    def find_version(self, program: str) -> str | None:
        """What a program says to --version: the number, if there is one; None: it is not there."""
        text = self.run([program, "--version"])
        if text is None:
            return None
        match = re.search(r"\d+\.\d+[\w.\-]*", text)
        return match[0] if match else text.splitlines()[0] if text else ""

    def read(self, path: str) -> str | None:
        """The text of a file below the root."""
        try:
            return (self.root / path).read_text()
        except OSError:
            return None

    def read_number(self, path: str) -> int | None:
        """The whole number that a file below the root holds."""
        text = (self.read(path) or "").strip()
        return int(text) if text.lstrip("-").isdecimal() else None
