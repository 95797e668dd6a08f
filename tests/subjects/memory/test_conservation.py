"""Memory that does not add up is said by every command that shows memory; whole memory by none."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from support.command import sightline


def write_snapshot(path: Path, *, is_whole: bool) -> Path:
    """Five blocks that are allocated; where it is not whole, five larger ones are freed."""
    trace: list[dict[str, Any]] = [
        {"action": "alloc", "addr": 4096 * (n + 1), "size": 1000, "stream": 0, "time_us": n + 1,
         "frames": []}
        for n in range(5)
    ]  # fmt: skip
    if not is_whole:
        trace += [
            {"action": "free_completed", "addr": 65536 * (n + 1), "size": 5000, "stream": 0,
             "time_us": 10 + n, "frames": []}
            for n in range(5)
        ]  # fmt: skip
    held = 5 if is_whole else 1
    blocks = [
        {"size": 4096, "requested_size": 1000, "state": "active_allocated" if n < held else
         "inactive", "address": 4096 * (n + 1), "frames": []}
        for n in range(5)
    ]  # fmt: skip
    segment = {"device": 0, "address": 4096, "total_size": 20480, "allocated_size": held * 4096,
               "active_size": held * 4096, "requested_size": held * 1000, "stream": 0,
               "segment_type": "small", "blocks": blocks}  # fmt: skip
    snapshot = {"segments": [segment], "device_traces": [trace], "allocator_settings": {}}
    path.write_bytes(pickle.dumps(snapshot))
    return path


COMMANDS = (
    ("report", "--no-html"),
    ("memory",),
    ("stats", "memory_peak"),
    ("stats", "peak_blocks"),
    ("flame", "--weight", "peak_bytes"),
)


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_says_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    broken = sightline(*words, write_snapshot(tmp_path / "broken.pickle", is_whole=False))
    assert "does not add up" in broken.said, broken.said
    whole = sightline(*words, write_snapshot(tmp_path / "whole.pickle", is_whole=True))
    assert "add up" not in whole.said, whole.said


def test_so_does_the_data(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "broken.pickle", is_whole=False)
    (limit,) = json.loads(sightline("memory", "--json", path).out)["limits"]
    assert limit["kind"] == "memory_does_not_add_up" and "reserved" in limit["text"]
