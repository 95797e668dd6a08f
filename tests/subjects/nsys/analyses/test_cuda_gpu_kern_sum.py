"""cuda_gpu_kern_sum: kernels by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.ask import rows
from support.exports import nested

SHOWN = "Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Min (ns)", "Max (ns)"


def test_two_kernels_of_one_name(tmp_path: Path) -> None:
    """1,000 and 100 ns; the deviation of a sample of these two is 450 ns times √2."""
    run = nested(tmp_path)
    assert rows(run, "cuda_gpu_kern_sum", "Name", *SHOWN) == [
        ("gemm(int)", pytest.approx(100 * 11 / 12), 1100, 2, 550.0, 100, 1000),
        ("relu(int)", pytest.approx(100 / 12), 100, 1, 100.0, 100, 100),
    ]
    assert rows(run, "cuda_gpu_kern_sum", "Med (ns)", "StdDev (ns)") == [
        (550.0, pytest.approx(450 * 2**0.5)),
        (100.0, 0.0),
    ]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"names": "base"}, ["gemm", "relu"]),
        ({"names": "mangled"}, ["_Zgemm", "_Zrelu"]),
        # Of start/end ranges, which need not nest, none is innermost.
        ({"names": "base", "nvtx_name": 1}, ["compute:gemm", "elsewhere:relu"]),
    ],
)
def test_names(tmp_path: Path, asked: dict[str, Any], named: list[str]) -> None:
    answer = rows(nested(tmp_path), "cuda_gpu_kern_sum", "Name", **asked)
    assert [name for (name,) in answer] == named


def test_a_window_cuts_it(tmp_path: Path) -> None:
    """1 µs from the first operation on, which starts at 620 ns."""
    part = nested(tmp_path).with_window("0ns..1us")
    assert rows(part, "cuda_gpu_kern_sum", "Name", "Instances") == [("gemm(int)", 2)]
