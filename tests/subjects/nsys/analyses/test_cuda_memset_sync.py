"""cuda_memset_sync: as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import slow


def test_what_is_listed(tmp_path: Path) -> None:
    """Not the fill of the device's memory, nor the asynchronous one."""
    fields = "Duration (ns)", "Memory Kind", "API Name"
    assert rows(slow(tmp_path), "cuda_memset_sync", *fields) == [(80, "Pinned", "cudaMemset_v3020")]
