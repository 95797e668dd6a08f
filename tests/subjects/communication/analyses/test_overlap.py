"""overlap: communication and copies beside compute."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traces import copy, kernel, opened


def test_overlap_of_communication_and_copies(tmp_path: Path) -> None:
    """compute [0, 100), nccl [50, 130) on two streams twice over, copies [120, 150)."""
    run = opened(
        tmp_path,
        [
            kernel("gemm", 0, 100),
            kernel("ncclDevKernel_AllReduce", 50, 80, stream=9),
            kernel("ncclDevKernel_AllReduce", 60, 40, stream=10),
            copy("Memcpy HtoD (Pinned -> Device)", 120, 30, 8),
        ],
    )
    assert run.ask("overlap").to_dicts() == [
        {
            "rank": 0,
            "device_id": 0,
            "compute_ns": 100_000,
            "comm_ns": 80_000,
            "comm_overlap_ns": 50_000,
            "comm_overlap_pct": 62.5,
            "exposed_comm_ns": 30_000,
            "copy_ns": 30_000,
            "copy_overlap_ns": 10_000,
            "copy_overlap_pct": pytest.approx(100 / 3),
        }
    ]
