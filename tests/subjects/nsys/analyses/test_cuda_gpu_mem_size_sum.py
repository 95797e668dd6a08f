"""cuda_gpu_mem_size_sum: sizes of copies and memsets by direction, in millions of bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.exports import HTOD, ON_DEVICE, PINNED, opened
from synth_nsys import Export


def test_two_copies_and_a_fill(tmp_path: Path) -> None:
    export = Export()
    export.copy(HTOD, 0, 10, 1, 1_000_000, PINNED, ON_DEVICE)
    export.copy(HTOD, 10, 20, 2, 3_000_000, PINNED, ON_DEVICE)
    export.fill(20, 30, 3, 500_000)
    assert rows(opened(tmp_path, export), "cuda_gpu_mem_size_sum") == [
        (4.0, 2, 2.0, 2.0, 1.0, 3.0, pytest.approx(2**0.5), "[CUDA memcpy Host-to-Device]"),
        (0.5, 1, 0.5, 0.5, 0.5, 0.5, 0.0, "[CUDA memset]"),
    ]
