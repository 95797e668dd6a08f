"""`make soak` in short: rounds of a watch leave nothing behind; both programs answer a while."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from attack.soak import MIB, Grown
from sightline.record.monitor.history import HistoryWriter, Limits
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.policies import DEFAULT, Policies, load_policies
from sightline.record.monitor.readings import GPU, HOST, PROCESS, Entity, Reading
from sightline.record.monitor.rounds import Round
from support.campaigns import CAMPAIGNS

PROGRAM = Path(__file__).with_name("soak.py")
MINUTE = 60_000_000_000
LONG = 400 if CAMPAIGNS else 60  # rounds


def seal_nothing(folder: Path, ended: Sequence[Path]) -> None:
    """What is sealed is another process's work."""


def test_rounds_leave_neither_objects_nor_files_behind(tmp_path: Path) -> None:
    """Counted, not timed. A minute apart, so that windows of half an hour are soon full."""
    policies, latest = Policies(load_policies([DEFAULT])), Latest()
    history = HistoryWriter(tmp_path / "h", Limits(), 60.0, seal=seal_nothing)

    def go_on(first: int, rounds: int) -> tuple[int, int]:
        for n in range(first, first + rounds):
            at = n * MINUTE
            values = {"GPU utilization": 50.0, "memory used": 1e9 + n % 7, "memory total": 8e10}
            readings = [Reading(Entity(GPU, number), at, values) for number in range(8)]
            readings += [Reading(Entity(HOST), at, {"load": 1.0})]
            readings += [Reading(Entity(PROCESS, 0, f"process {n}"), at, {"memory used": 1.0})]
            now = Round(at, at, readings, [])
            now.events += policies.judge(now)
            latest.put(now)
            assert history.write(now)
        gc.collect()
        return tracemalloc.get_traced_memory()[0], len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    go_on(0, 100)
    tracemalloc.start()
    try:
        before = go_on(100, 40)
        after = go_on(140, LONG)
    finally:
        tracemalloc.stop()
    history.close()
    assert after[1] == before[1]
    # Of 4,000 readings in a campaign; kept, they would be 1.5 MB.
    assert after[0] - before[0] < 50_000 + 375 * LONG


def test_growth_is_seen_and_noise_is_not() -> None:
    steady = Grown("a", [100 * MIB + n % 3 * MIB for n in range(60)], [9, 10] * 30, [4] * 60)
    assert steady.judge() == []
    growing = Grown("b", [100 * MIB + n * MIB // 4 for n in range(60)], [*range(60)], [4] * 60)
    assert [line.split(" grew")[0] for line in growing.judge()] == ["b: memory", "b: files"]
    assert len(Grown("c", [1], [1], [1]).judge()) == 1


def test_the_slope_of_memory_is_that_of_its_readings() -> None:
    """2 MiB an hour below noise of 1 MiB; and none."""
    seconds = [10.0 * n for n in range(360)]
    noise = [n % 3 * MIB // 2 for n in range(360)]
    for rate in (0, 2):
        memory = [
            int(100 * MIB + rate * MIB * s / 3600 + n) for s, n in zip(seconds, noise, strict=True)
        ]
        slope, error = Grown("a", memory, [9] * 360, [4] * 360, seconds).find_slope()
        assert abs(slope - rate * MIB) <= error < 0.5 * MIB


@pytest.mark.timing
@pytest.mark.skipif(sys.platform != "linux", reason="what /proc says")
def test_watch_and_serve_answer_for_a_while(nvml_library: Path) -> None:
    words = [sys.executable, str(PROGRAM), "--seconds", "5"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 not answered" in done.stdout
