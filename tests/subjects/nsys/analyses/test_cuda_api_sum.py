"""cuda_api_sum: API calls by name, without the version that CUDA appends."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested

SHOWN = "Time (%)", "Total Time (ns)", "Num Calls", "Avg (ns)", "Min (ns)", "Max (ns)"


def test_three_launches_and_a_copy(tmp_path: Path) -> None:
    run = nested(tmp_path)
    assert rows(run, "cuda_api_sum", "Name", *SHOWN) == [
        ("cudaLaunchKernel", 75.0, 150, 3, 50.0, 50, 50),
        ("cudaMemcpyAsync", 25.0, 50, 1, 50.0, 50, 50),
    ]
    assert rows(run, "cuda_api_sum", "Med (ns)", "StdDev (ns)") == [(50.0, 0.0), (50.0, 0.0)]
