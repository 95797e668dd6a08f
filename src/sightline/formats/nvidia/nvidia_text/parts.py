"""What the runs are that stand in one text, each with what was read of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from sightline.formats.nvidia._nsys_trace import TraceRows

MOST_PARTS = 1_000


@dataclass
class Part:
    """One run under a profiler.

    `had`: the tables of it that were met so far; `pids`: its processes, announced or with a result.
    """

    tool: str
    command: str | None = None
    had: set[tuple[Any, ...]] = field(default_factory=set)
    pids: set[tuple[str, str]] = field(default_factory=set)
    ops: list[dict[str, Any]] = field(default_factory=list)  # of traces: the GPU's operations
    calls: list[dict[str, Any]] = field(default_factory=list)
    devices: dict[int, str] = field(default_factory=dict)
    traces: TraceRows = field(default_factory=TraceRows)  # of nsys
    counters: list[dict[str, Any]] = field(default_factory=list)  # of metrics and events
    sums: list[dict[str, Any]] = field(default_factory=list)
    notes: set[str] = field(default_factory=set)

    @property
    def is_traced(self) -> bool:
        """Whether there are operations or calls with times of their own."""
        return bool(self.ops or self.calls or self.traces.ops or self.traces.calls)


def name_program(command: str) -> str | None:
    """The program of a command line, without its folder and arguments: these may name people."""
    word = next(iter(command.split()), "")
    return PurePath(word.replace("\\", "/")).name or None
