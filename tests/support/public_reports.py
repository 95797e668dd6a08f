"""A public report of a file that a tool misread, rebuilt small, and what must be said of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from support.command import sightline

BASE_US = 1_780_000_000_000_000


class Report(NamedTuple):
    """A thread, the file, the exit code, and patterns that must and must not be on the screen."""

    thread: str
    name: str
    content: str | bytes
    code: int
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()


def make_launch(number: int, at: int) -> list[dict[str, Any]]:
    """A launch of 5 µs and a kernel of 50 µs, 20 µs later."""
    link = {"correlation": number, "External id": number}
    device = {"device": 0, "stream": 7, **link}
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
            "ts": at, "dur": 5, "args": link}  # fmt: skip
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 20,
              "dur": 50, "args": device}  # fmt: skip
    return [call, kernel]


def check_report(folder: Path, report: Report) -> None:
    """Ask what is said of the file, and compare."""
    path = folder / report.name
    content = report.content
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    outcome = sightline("report", "--no-html", path)
    said = outcome.said
    assert outcome.code == report.code, said
    for pattern in report.has:
        assert re.search(pattern, said), (pattern, said)
    for pattern in report.lacks:
        assert not re.search(pattern, said), (pattern, said)
