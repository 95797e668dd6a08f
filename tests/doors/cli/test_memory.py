"""sightline memory: one screen at 80 columns, the same as data, and the flame graph of the peak."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from support.command import sightline
from support.snapshots import alloc, frames, segment, snapshot
from support.training import train
from synth_memory.programs import simulate

HOSTILE = "\x1b[31m\x1b]0;owned\x07\u202efile"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "snapshot.pickle"
    target.write_bytes(pickle.dumps(train(7, leak=7)))
    return target


def test_the_screen(path: Path) -> None:
    out = sightline("memory", path).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "GPU 0 peak 482 B in 10 blocks"
    assert "optimizer state ████████ 200 B 41.5 % 1" in lines
    assert "log (t.py:9) other 42 B 8.7 % 6" in lines
    assert "1 Memory leak could free up to 42 B (8.7 %)" in lines


def test_as_data(path: Path) -> None:
    data = json.loads(sightline("memory", path, "--json").out)
    assert data["peaks"][0]["allocated_bytes"] == 482
    assert sum(row["bytes"] for row in data["peak_blocks"]) == 482
    assert "memory-leak" in [finding["rule"] for finding in data["findings"]]


def test_no_line_is_wider_than_80_columns(tmp_path: Path) -> None:
    for cause in ("memory-fragmentation", "out-of-memory"):
        target = tmp_path / f"{cause}.pickle"
        target.write_bytes(pickle.dumps(simulate(cause, 1).document))
        lines = sightline("memory", target).out.splitlines()
        assert max(map(len, lines)) <= 80, max(lines, key=len)


def test_names_steer_no_terminal(tmp_path: Path) -> None:
    stack = frames(f"{HOSTILE}.py:1:{HOSTILE}")
    target = tmp_path / "snapshot.pickle"
    held = [segment(64, (512, "active_allocated", stack))]
    target.write_bytes(pickle.dumps(snapshot([alloc(64, 512, 1, stack)], held)))
    out = sightline("memory", target).out
    assert out
    assert not set(out) & set(HOSTILE[:1] + "\x07\u202e")


def test_segments_alone(tmp_path: Path) -> None:
    target = tmp_path / "snapshot.pickle"
    target.write_bytes(pickle.dumps([segment(64, (512, "inactive"))]))
    assert "free, in segments that nothing uses" in sightline("memory", target).out


def test_a_recording_without_memory(tmp_path: Path) -> None:
    target = tmp_path / "a.folded"
    target.write_text("main;work 3\n")
    outcome = sightline("memory", target)
    assert outcome.code == 2
    assert "there is no memory to show" in outcome.err
    assert "_dump_snapshot" in outcome.err


def test_the_flame_graph_of_the_peak(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "peak.folded"
    outcome = sightline("flame", path, "--weight", "peak_bytes", "-o", target)
    assert outcome.code == 0, outcome.err
    sums: dict[str, int] = {}
    for line in target.read_text().splitlines():
        stack, _, size = line.rpartition(" ")
        rank, memory, kind = stack.split(";")[:3]
        assert (rank, memory) == ("rank 0", "GPU 0 memory")
        sums[kind] = sums.get(kind, 0) + int(size)
    assert sums["optimizer state"] == 200
    assert sum(sums.values()) == 482


def test_a_report_begins_with_the_peak(path: Path, tmp_path: Path) -> None:
    """A snapshot has no timeline, but something to say."""
    target = tmp_path / "report.md"
    assert sightline("report", path, "-o", target).code == 0
    assert "482 B were allocated on GPU 0 at the peak." in target.read_text()
