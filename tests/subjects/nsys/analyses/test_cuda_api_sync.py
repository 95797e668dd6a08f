"""cuda_api_sync: as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import MS, slow


def test_what_is_listed(tmp_path: Path) -> None:
    """The longest first; waits for events are left out."""
    run = slow(tmp_path)
    assert rows(run, "cuda_api_sync") == [
        (2 * MS, 22 * MS, 7, 7, "cudaStreamSynchronize_v3020"),
        (1 * MS, 20 * MS, 7, 7, "cudaDeviceSynchronize_v3020"),
    ]
    assert len(rows(run, "cuda_api_sync", rows=1)) == 1
