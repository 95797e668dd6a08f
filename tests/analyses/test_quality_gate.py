"""quality_gate: what a recording lacks, and which findings that concerns."""

from __future__ import annotations

from pathlib import Path

from sightline.model.run import Run
from support import exports
from support.simulated import simulated
from support.traces import TID, call, host, kernel, launched, opened, step


def effects(run: Run) -> dict[str, str]:
    return dict(run.ask("quality_gate").select("check", "effect").rows())


def test_a_clean_recording_passes() -> None:
    assert set(effects(simulated("healthy").run).values()) == {"ok"}


def test_kernels_without_length_or_host(tmp_path: Path) -> None:
    seen = effects(opened(tmp_path, [kernel("k", 10 * i, 0) for i in range(20)]))
    assert seen["zero durations"] == "lowers"
    assert seen["host"] == "blocks"


def test_kernels_that_start_before_their_launch_in_one_step(tmp_path: Path) -> None:
    early = [launched(10 * i + 5, kernel("k", 10 * i, 3), dur=2) for i in range(20)]
    seen = effects(opened(tmp_path, [*early, step(1, 0, 300)]))
    assert seen["clocks"] == "lowers"
    assert seen["steps"] == "lowers"


def test_no_device(tmp_path: Path) -> None:
    assert effects(opened(tmp_path, [call("cudaMalloc", 0, 5)]))["device"] == "blocks"


def test_a_profiler_that_takes_its_time(tmp_path: Path) -> None:
    """800 of 1,050 µs."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            host("overhead", "Buffer Flush", 120, 770, tid=TID + 1),
            launched(900, kernel("b", 910, 150)),
        ],
    )
    assert effects(run)["profiler overhead"] == "lowers"


def test_migrations_of_managed_memory_have_no_launch(tmp_path: Path) -> None:
    """Three of four operations: what moves them is a page fault, no call."""
    assert effects(exports.with_unified_memory(tmp_path))["launches"] == "ok"
