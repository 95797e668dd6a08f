"""cuda_gpu_kern_gb_sum: kernels by name and launch shape."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import opened
from synth_nsys import Export


def test_one_name_in_two_shapes(tmp_path: Path) -> None:
    export = Export()
    export.kernel("gemm(int)", 0, 100, 1)
    export.kernel("gemm(int)", 100, 400, 2, gridX=64, gridY=2, blockX=32)
    fields = "Total Time (ns)", "Instances", "GridXYZ", "BlockXYZ", "Name"
    assert rows(opened(tmp_path, export), "cuda_gpu_kern_gb_sum", *fields) == [
        (300, 1, "  64    2    1", "  32    1    1", "gemm(int)"),
        (100, 1, " 128    1    1", " 256    1    1", "gemm(int)"),
    ]
