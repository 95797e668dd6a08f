"""What is to be recorded and where: what backends are chosen by."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any


def is_python(command: Sequence[str]) -> bool:
    """Whether a command starts Python in the end, as far as its words say."""
    from sightline.record.inline.hook import LAUNCHERS  # 10 ms, which a help text need not wait for

    words = [Path(w).name for w in command]
    if any(w.startswith("python") or w in LAUNCHERS or w.endswith(".py") for w in words):
        return True
    program = shutil.which(command[0])
    if program is None:
        return False
    try:
        with open(program, "rb") as file:  # noqa: PTH123  # a path of any kind
            line = file.readline(200)
            return line.startswith(b"#!") and b"python" in line
    except OSError:
        return False


def is_launched(command: Sequence[str]) -> bool:
    """Whether a launcher stands in the command: its ranks are what is of interest."""
    from sightline.record.inline.hook import LAUNCHERS

    return any(
        Path(w).name in LAUNCHERS or w in LAUNCHERS or Path(w).name == "srun" for w in command
    )


@dataclass(frozen=True)
class Situation:
    """A command, a person's question and choices, and the facts on the machine."""

    command: Sequence[str]
    question: str
    facts: Mapping[str, Any]  # machine.examine_machine's
    options: Mapping[str, Any]
    is_asked: bool  # whether a person named the backends

    @cached_property
    def is_python(self) -> bool:
        """Whether the program is Python, as far as its command says."""
        return is_python(self.command)

    @cached_property
    def is_launched(self) -> bool:
        """Whether a launcher starts its ranks."""
        return is_launched(self.command)

    @property
    def has_gpu(self) -> bool:
        """Whether there is a GPU of NVIDIA's or AMD's."""
        return bool(self.facts["gpus"])

    @property
    def has_only_amd(self) -> bool:
        """Whether the machine has GPUs of AMD's, and none of NVIDIA's."""
        return bool(self.facts["amd_gpus"]) and not len(self.facts["gpus"]) - len(
            self.facts["amd_gpus"]
        )

    @property
    def has_only_intel(self) -> bool:
        """Whether the machine has GPUs of Intel's, and none of another vendor."""
        return bool(self.facts["intel_gpus"]) and not self.facts["gpus"]

    @property
    def may_read_counters(self) -> bool:
        """Whether NVIDIA's driver gives its counters to this user."""
        return not (self.facts["counters_need_admin"] and os.geteuid() != 0)

    @property
    def samples_through_cupti(self) -> bool:
        """Whether PC samples can be taken while the program runs, by sightline's own library."""
        return bool(self.facts["cupti_injection"]) and self.may_read_counters

    @property
    def vendor_tool(self) -> str | None:
        """What traces the GPU's timeline around a program that is not Python; None: nothing can."""
        if self.is_python:
            return None  # its framework's own profiler does
        if self.has_gpu and self.facts["nsys"] is not None and not self.has_only_amd:
            return "nsys"
        if self.has_only_amd and self.facts["rocprofv3"] is not None:
            return "rocprofv3"
        if self.has_only_intel and self.facts["unitrace"] is not None:
            return "unitrace"
        return "cupti" if self.has_gpu and self.facts["cupti_injection"] else None
