"""nvtx_gpu_proj_sum: time of ranges on the GPU, by name."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested

SHOWN = "Range", "Total Proj Time (ns)", "Total Range Time (ns)", "Total GPU Ops", "Avg Num Child"


def test_projection(tmp_path: Path) -> None:
    assert sorted(rows(nested(tmp_path), "nvtx_gpu_proj_sum", *SHOWN)) == [
        (":compute", 1780, 500, 2, 0.0),
        (":elsewhere", 100, 900, 1, 0.0),
        (":load", 400, 200, 1, 0.0),
        (":whole", 1780, 860, 3, 0.0),
        ("app:step", 1780, 1000, 3, 2.0),
    ]
