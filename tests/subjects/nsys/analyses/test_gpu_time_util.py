"""gpu_time_util: as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import MS, opened, two_kernels

SHOWN = "In-Use (%)", "Duration (ns)", "Start (ns)"


def test_parts_of_40_ms(tmp_path: Path) -> None:
    """Idle in [600, 900) of 1,200 ms, both 20 ns later: seven parts from 600 on are empty. The
    eighth is used for half of its length, which is not less than half.
    """
    run = opened(tmp_path, two_kernels((0, 600), (900, 1_200)))
    assert rows(run, "gpu_time_util", *SHOWN) == [(0.0, 280 * MS, 600 * MS + 20)]
    assert rows(run, "gpu_time_util", *SHOWN, threshold=51) == [(6.25, 320 * MS, 600 * MS + 20)]


def test_the_whole_run_as_one_part(tmp_path: Path) -> None:
    run = opened(tmp_path, two_kernels((0, 600), (900, 1_200)))
    assert rows(run, "gpu_time_util", *SHOWN, threshold=101, chunks=1) == [(75.0, 1_200 * MS, 20)]
