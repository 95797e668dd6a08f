"""Polling: a host that asks, or looks at memory, until the device is done waits for the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sightline
from sightline.replay.whatif import parse_wish, replay_wishes
from support.ask import rows
from support.traces import Event, call, kernel, launched, opened


def sum_parts(run: sightline.Run) -> dict[str, int]:
    """The critical path's parts, in µs."""
    found = rows(run, "critical_path", "part", "duration_ns")
    parts: dict[str, int] = {}
    for part, ns in found:
        parts[part] = parts.get(part, 0) + ns // 1000
    return parts


def halve(run: sightline.Run, selector: str) -> int:
    """How many µs shorter the window is with this work twice as fast."""
    gain, _ = replay_wishes(run, [parse_wish(f"{selector}=0.5", scale=True)])
    return gain.ns // 1000


def query(begin: int, end: int, every: int = 20) -> list[Event]:
    """A query each so many µs, the last one at `end`."""
    return [call("cudaEventQuery", at, 2) for at in (*range(begin, end, every), end)]


def test_queries_until_the_kernel_has_ended(tmp_path: Path) -> None:
    """Kernel a ends at 410, the query at 415 sees it, and kernel b is launched at 420."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 400)),
            *query(20, 415),
            launched(420, kernel("b", 430, 100)),
        ],
    )
    assert sum_parts(run) == {
        "compute": 500,
        "return of a wait": 5,
        "CPU in a call": 2,
        "CPU code between calls": 3,
        "launch latency": 10,
    }
    assert halve(run, "kernel:a") == 200


def test_queries_that_an_allocator_makes(tmp_path: Path) -> None:
    """None of them sees the end of what was launched last: the host works, and is late."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(8, kernel("b", 120, 20)),
            *query(20, 415),
            launched(420, kernel("c", 430, 100)),
        ],
    )
    assert "return of a wait" not in sum_parts(run)
    assert halve(run, "kernel:a") == 0


def dispatch(*spans: tuple[int, int]) -> list[Any]:
    """Kernels, and for how long the host is silent after the launch of each."""
    events: list[Any] = []
    at = 0
    for length, silent in spans:
        events += launched(at, kernel("notify", at + 10, length))
        at += 5 + silent
        events += launched(at, kernel("use", at + 40, 100))
        at += 150
    return events


def test_silence_that_follows_the_kernel(tmp_path: Path) -> None:
    """As DeepEP's dispatch: the kernel writes a counter 20 µs before it ends, the host spins."""
    lengths = (2_000, 20_000, 9_000, 500)
    run = opened(tmp_path, dispatch(*((length, length - 15) for length in lengths)))
    parts = sum_parts(run)
    assert parts["compute"] > 31_000
    assert parts["CPU code between calls"] < 600
    assert halve(run, "kernel:notify") > 15_000


def test_silence_of_one_length(tmp_path: Path) -> None:
    """A host that is busy for 2 ms each time comes near the ends of kernels of 2 ms by chance."""
    run = opened(tmp_path, dispatch((1_990, 2_000), (2_005, 2_000), (2_012, 2_001), (1_999, 2_000)))
    assert "return of a wait" not in sum_parts(run)


def test_two_silences(tmp_path: Path) -> None:
    run = opened(tmp_path, dispatch((2_000, 1_985), (9_000, 8_985)))
    assert "return of a wait" not in sum_parts(run)
