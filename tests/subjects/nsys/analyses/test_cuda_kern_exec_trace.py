"""cuda_kern_exec_trace: launch call, queue and run of each kernel."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested

SHOWN = "API Start (ns)", "Queue Start (ns)", "Queue Dur (ns)", "Total Dur (ns)", "Kernel Name"


def test_launch_phases(tmp_path: Path) -> None:
    assert rows(nested(tmp_path), "cuda_kern_exec_trace", *SHOWN) == [
        (450, 500, 900, 1950, "gemm(int)"),
        # It began before its launch call returned: no queue time.
        (600, None, None, 120, "gemm(int)"),
        (600, 650, 2350, 2500, "relu(int)"),
    ]


def test_kernels_under_their_innermost_range(tmp_path: Path) -> None:
    asked = {"names": "base", "nvtx_name": 1}
    names = rows(nested(tmp_path), "cuda_kern_exec_trace", "Kernel Name", **asked)
    assert names == [("compute:gemm",), ("compute:gemm",), ("elsewhere:relu",)]
