"""cuda_api_gpu_sum: API calls and GPU operations side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.exports import nested

SHOWN = "Total Time (ns)", "Instances", "Category", "Operation"


def test_host_and_device(tmp_path: Path) -> None:
    run = nested(tmp_path)
    assert rows(run, "cuda_api_gpu_sum", *SHOWN, names="base", nvtx_name=1) == [
        (1100, 2, "CUDA_KERNEL", "compute:gemm"),
        (400, 1, "MEMORY_OPER", "[CUDA memcpy Host-to-Device]"),
        (150, 3, "CUDA_API", "cudaLaunchKernel"),
        (100, 1, "CUDA_KERNEL", "elsewhere:relu"),
        (50, 1, "CUDA_API", "cudaMemcpyAsync"),
    ]
    shares = [share for (share,) in rows(run, "cuda_api_gpu_sum", "Time (%)")]
    assert shares == [pytest.approx(100 * ns / 1800) for ns in (1100, 400, 150, 100, 50)]
