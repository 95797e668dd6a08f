"""breakdown: where a device's window went; each moment counts once, compute first."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import copy, kernel, opened


def test_each_moment_counts_once(tmp_path: Path) -> None:
    """Compute [0, 100), communication [80, 150), a copy [140, 200), nothing, compute [250, 300)."""
    run = opened(
        tmp_path,
        [
            kernel("gemm", 0, 100),
            kernel("ncclDevKernel_AllReduce", 80, 70, stream=8),
            copy("Memcpy HtoD (Pinned -> Device)", 140, 60, 8, stream=9),
            kernel("gemm", 250, 50),
        ],
    )
    parts = "window_ns", "compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns"
    assert rows(run, "breakdown", *parts) == [(300_000, 150_000, 50_000, 50_000, 50_000)]
    assert rows(run, "breakdown", "compute_pct") == [(50.0,)]


def test_devices_are_apart(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 0, 100), kernel("b", 50, 20, device=1)])
    assert rows(run, "breakdown", "device_id", "window_ns", "idle_ns") == [
        (0, 100_000, 0),
        (1, 20_000, 0),
    ]


def test_a_window_without_length(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 5, 0)])
    assert rows(run, "breakdown", "window_ns", "idle_ns", "idle_pct") == [(0, 0, 0.0)]


def test_what_nobody_knows_is_no_compute(tmp_path: Path) -> None:
    """A gemm [0, 100), a wait of MTIA's [80, 130), ROCm's wait for a value [130, 150)."""
    run = opened(
        tmp_path,
        [
            kernel("gemm", 0, 100, cat="mtia_ccp_events"),
            kernel("wait", 80, 50, stream=8, cat="mtia_ccp_events"),
            kernel("__amd_rocclr_streamOpsWait", 130, 20),
        ],
    )
    parts = "window_ns", "compute_ns", "unknown_ns", "idle_ns"
    assert rows(run, "breakdown", *parts) == [(150_000, 100_000, 50_000, 0)]
    assert rows(run, "critical_path", "duration_ns", "part")[-1] == (20_000, "unknown operation")
