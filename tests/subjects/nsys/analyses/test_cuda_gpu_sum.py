"""cuda_gpu_sum: kernels, copies and memsets together."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested

SHOWN = "Time (%)", "Total Time (ns)", "Instances", "Category", "Operation"


def test_kernels_and_a_copy(tmp_path: Path) -> None:
    assert rows(nested(tmp_path), "cuda_gpu_sum", *SHOWN) == [
        (68.75, 1100, 2, "CUDA_KERNEL", "gemm(int)"),
        (25.0, 400, 1, "MEMORY_OPER", "[CUDA memcpy Host-to-Device]"),
        (6.25, 100, 1, "CUDA_KERNEL", "relu(int)"),
    ]


def test_kernels_under_their_innermost_range(tmp_path: Path) -> None:
    answer = rows(nested(tmp_path), "cuda_gpu_sum", "Operation", names="base", nvtx_name=1)
    assert [name for (name,) in answer] == [
        "compute:gemm",
        "[CUDA memcpy Host-to-Device]",
        "elsewhere:relu",
    ]
