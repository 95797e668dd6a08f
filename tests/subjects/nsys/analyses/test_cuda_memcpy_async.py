"""cuda_memcpy_async: as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import slow

SHOWN = "Duration (ns)", "Src Kind", "Dst Kind", "Bytes (MB)", "API Name"


def test_what_is_listed(tmp_path: Path) -> None:
    assert rows(slow(tmp_path), "cuda_memcpy_async", *SHOWN) == [
        (80, "Pageable", "Device", 1.048576, "cudaMemcpyAsync_v3020")
    ]
