"""Daemons and clients that are processes of their own, by `benchmarks/fleet*.py`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timing,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the clients are compiled"),
]


def play(*words: str, name: str = "fleet.py") -> str:
    command = [sys.executable, str(BENCHMARKS / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "no namespaces here" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_figure(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found[1])


def test_steps_of_a_job_before_in_and_after_captures() -> None:
    """Eight ranks of PyTorch: the processor time of a step is what it was; who is late is named."""
    pytest.importorskip("torch")
    told = play("--ranks", "8", "--captures", "3", name="fleet_steps.py")
    apart = [abs(float(p)) for p in re.findall(r"A/A: .* lie ([-+.\d]+) to ([-+.\d]+)", told)[0]]
    assert read_figure(r"after: wall ([-+.\d]+) %", told) < 10 + 2 * max(apart)
    assert "left: 0" in told


def test_nodes_whose_clocks_are_apart() -> None:
    """Eight nodes, evenly up to 50 ms ahead and behind, and 64 ranks, of which one is late."""
    told = play("--ranks", "64", "--nodes", "8", "--skew")
    assert "64 of 64 ranks on 8 nodes" in told
    assert "problems: 0 []" in told
    assert "left: 0" in told
    assert "clocks within what is stated: 8 of 8" in told
    assert "first: ranks [17], host late; planted: 17" in told
    assert read_figure(r"starts within ([\d.]+) ms", told) < 50


@pytest.mark.parametrize("fan_out", [0, 16])
def test_a_thousand_ranks_are_compared_while_somebody_waits(fan_out: int) -> None:
    """125 nodes that answer over TLS; what it takes who asks, of which 8 s are until all know."""
    told = play("--nodes", "125", "--fan-out", str(fan_out), name="fleet_messages.py")
    assert "1000 ranks: 0 problems" in told
    assert "first: ranks [139], host late" in told
    used = [float(s) for s in re.findall(r"processor ([\d.]+) s", told)]
    assert sum(used) < 30
    assert read_figure(r"memory (\d+) MB", told) < 1000


def test_one_capture_after_another() -> None:
    """The daemon's memory stays where it is, and nothing is left where programs write."""
    told = play("--ranks", "8", "--nodes", "1", "--captures", "30")
    held = [float(mb) for mb in re.findall(r"\d+: ([\d.]+) MB of daemons, 0 files left", told)]
    assert len(held) == 29
    assert held[-1] < 1.1 * held[4]


@pytest.mark.parametrize("fan_out", [0, 4])
def test_nodes_that_are_network_namespaces(fan_out: int) -> None:
    """Eight nodes over HTTPS whose clocks are up to 50 ms apart: eight of PyTorch, 56 clients.

    All asked directly, and through two of them.
    """
    pytest.importorskip("torch")
    told = play("--fan-out", str(fan_out), name="fleet_namespaces.py")
    assert "torch: 8 ranks on 8 nodes" in told
    assert "light: 56 ranks on 8 nodes" in told
    assert told.count("problems: 0 []") == 2
    assert told.count("clocks within what is stated: 8 of 8") == 2
    assert "first: ranks [5], host late; planted: 5" in told
    assert "first: ranks [17], host late; planted: 17" in told
    for count in (8, 56):
        assert read_figure(rf"{count} starts within ([\d.]+) ms", told) < 50
    assert "left where programs write: 0" in told
