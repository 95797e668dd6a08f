"""cuda_gpu_trace: each operation of the GPU, in order of start."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.exports import nested, opened
from synth_nsys import Export


def test_kernels_and_a_copy(tmp_path: Path) -> None:
    run = nested(tmp_path)
    fields = "Start (ns)", "Duration (ns)", "CorrId", "GrdX", "BlkX", "Reg/Trd", "Strm", "Name"
    assert rows(run, "cuda_gpu_trace", *fields) == [
        (620, 100, 3, 128, 256, 32, 8, "gemm(int)"),
        (1000, 400, 1, None, None, None, 7, "[CUDA memcpy Host-to-Device]"),
        (1400, 1000, 2, 128, 256, 32, 7, "gemm(int)"),
        (3000, 100, 4, 128, 256, 32, 7, "relu(int)"),
    ]
    fields = "Bytes (MB)", "Throughput (MB/s)", "SrcMemKd", "DstMemKd", "Device"
    assert rows(run, "cuda_gpu_trace", *fields)[1] == (
        4.194304,
        pytest.approx(4_194_304 / 400 * 1000),  # bytes per ns are 1,000 MB/s
        "Pinned",
        "Device",
        "GPU (0)",
    )


def test_kernels_under_their_innermost_range(tmp_path: Path) -> None:
    names = rows(nested(tmp_path), "cuda_gpu_trace", "Name", names="base", nvtx_name=1)
    assert [name for (name,) in names][2:] == ["compute:gemm", "elsewhere:relu"]


def test_context_0_is_no_green_context(tmp_path: Path) -> None:
    """As in the vendor's scripts: NULLIF(greenContextId, 0)."""
    export = Export()
    for number, green in enumerate((0, 4), start=1):
        export.api("cudaLaunchKernel", 100 * number, 100 * number + 10, number)
        begin = 100 * number + 20
        export.kernel("k", begin, begin + 50, number, greenContextId=green)
    assert rows(opened(tmp_path, export), "cuda_gpu_trace", "CorrId", "GreenCtx") == [
        (1, None),
        (2, 4),
    ]
