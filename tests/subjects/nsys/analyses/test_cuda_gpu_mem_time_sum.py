"""cuda_gpu_mem_time_sum: time of copies and memsets by direction."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import DTOD, DTOH, HTOD, ON_DEVICE, PINNED, opened
from synth_nsys import Export


def test_three_directions(tmp_path: Path) -> None:
    export = Export()
    export.copy(HTOD, 0, 60, 1, 8, PINNED, ON_DEVICE)
    export.copy(DTOH, 60, 90, 2, 8, ON_DEVICE, PINNED)
    export.copy(DTOD, 90, 95, 3, 8, ON_DEVICE, ON_DEVICE)
    export.fill(95, 100, 4, 8)
    fields = "Time (%)", "Total Time (ns)", "Count", "Operation"
    assert rows(opened(tmp_path, export), "cuda_gpu_mem_time_sum", *fields) == [
        (60.0, 60, 1, "[CUDA memcpy Host-to-Device]"),
        (30.0, 30, 1, "[CUDA memcpy Device-to-Host]"),
        (5.0, 5, 1, "[CUDA memcpy Device-to-Device]"),
        (5.0, 5, 1, "[CUDA memset]"),
    ]
