"""memcpy: copies and memsets by direction and memory."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import copy, kernel, opened


def test_copies_by_direction_and_memory(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            copy("Memcpy HtoD (Pinned -> Device)", 0, 100, 2_500_000),
            copy("Memcpy HtoD (Pinned -> Device)", 200, 100, 2_500_000),
            copy("Memcpy DtoH (Device -> Pageable)", 400, 50, None),
            kernel("Memset (Device)", 990, 10, cat="gpu_memset", bytes=1_000),
        ],
    )
    assert rows(
        run,
        "memcpy",
        "kind",
        "copy_kind",
        "src_kind",
        "dst_kind",
        "copies",
        "total_ns",
        "window_pct",
        "bytes",
        "median_bytes",
        "gb_per_s",
    ) == [
        ("memcpy", "HtoD", "pinned", "device", 2, 200_000, 20.0, 5_000_000, 2_500_000, 25.0),
        ("memcpy", "DtoH", "device", "pageable", 1, 50_000, 5.0, None, None, None),
        ("memset", None, None, None, 1, 10_000, 1.0, 1_000, 1_000, 0.1),
    ]
