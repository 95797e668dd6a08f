"""nvtx_kern_sum: kernels that were launched in ranges."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested

SHOWN = (
    "NVTX Range", "Style", "TID", "NVTX Inst", "Kern Inst", "Total Time (ns)", "Kernel Name",
)  # fmt: skip


def test_kernels_of_ranges(tmp_path: Path) -> None:
    assert rows(nested(tmp_path), "nvtx_kern_sum", *SHOWN, names="base") == [
        (":compute", "PushPop", 7, 1, 2, 1100, "gemm"),
        (":whole", "StartEnd", 7, 1, 2, 1100, "gemm"),
        ("app:step", "PushPop", 7, 1, 2, 1100, "gemm"),
        (":elsewhere", "PushPop", 8, 1, 1, 100, "relu"),
    ]
