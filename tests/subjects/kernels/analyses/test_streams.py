"""streams: what each stream was used for."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ask import rows
from support.traces import copy, kernel, opened


def test_streams(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            kernel("a", 0, 50),
            kernel("a", 40, 20),
            kernel("b", 100, 100, stream=8),
            copy("Memcpy HtoD (Pinned -> Device)", 10, 10, 8, stream=8),
        ],
    )
    assert rows(
        run,
        "streams",
        "stream_id",
        "ops",
        "kernels",
        "copies",
        "first_ns",
        "last_ns",
        "busy_ns",
        "window_pct",
    ) == [
        (7, 2, 2, 0, 0, 60_000, 60_000, pytest.approx(30)),
        (8, 2, 1, 1, 10_000, 200_000, 110_000, pytest.approx(55)),
    ]
