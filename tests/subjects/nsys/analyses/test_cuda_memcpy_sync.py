"""cuda_memcpy_sync: as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import slow

SHOWN = "Duration (ns)", "Src Kind", "Dst Kind", "Bytes (MB)", "API Name"


def test_what_is_listed(tmp_path: Path) -> None:
    """Not the copy of 64,000 bytes to the device, nor the one within it."""
    assert rows(slow(tmp_path), "cuda_memcpy_sync", *SHOWN) == [
        (83, "Device", "Pageable", 8e-06, "cudaMemcpy_v3020"),
        (82, "Pageable", "Device", 0.064001, "cudaMemcpy_v3020"),
    ]
