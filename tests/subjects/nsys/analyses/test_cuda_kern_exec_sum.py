"""cuda_kern_exec_sum: launch calls, queues and runs by kernel."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested

SHOWN = "Kernel Name", "Count", "QCount", "QAvg (ns)", "TAvg (ns)", "KMax (ns)"


def test_launch_phases(tmp_path: Path) -> None:
    """gemm: 1,950 and 120 ns from call to end, of which 900 in the queue, once."""
    assert rows(nested(tmp_path), "cuda_kern_exec_sum", *SHOWN) == [
        ("relu(int)", 1, 1, 2350.0, 2500.0, 100),
        ("gemm(int)", 2, 1, 900.0, 1035.0, 1000),
    ]


def test_kernels_under_their_innermost_range(tmp_path: Path) -> None:
    asked = {"names": "base", "nvtx_name": 1}
    names = rows(nested(tmp_path), "cuda_kern_exec_sum", "Kernel Name", **asked)
    assert names == [("elsewhere:relu",), ("compute:gemm",)]
