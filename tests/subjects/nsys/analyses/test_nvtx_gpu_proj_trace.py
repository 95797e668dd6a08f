"""nvtx_gpu_proj_trace: each range where its work ran on the GPU."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import nested

SHOWN = (
    "Name", "Projected Start (ns)", "Projected Duration (ns)", "Orig Start (ns)", "Style",
    "NumGPUOps", "Lvl", "NumChild", "RangeId", "RangeStack",
)  # fmt: skip


def test_projection(tmp_path: Path) -> None:
    """The range that ends on another thread is not projected; :whole is."""
    assert rows(nested(tmp_path), "nvtx_gpu_proj_trace", *SHOWN) == [
        ("app:step", 620, 1780, 0, "PushPop", 3, 0, 2, 2, ":2"),
        (":compute", 620, 1780, 400, "PushPop", 2, 1, 0, 4, ":2:4"),
        (":whole", 620, 1780, 90, "StartEnd", 3, 0, 0, 6, ":6"),
        (":load", 1000, 400, 100, "PushPop", 1, 1, 0, 3, ":2:3"),
        (":elsewhere", 3000, 100, 50, "PushPop", 1, 0, 0, 5, ":5"),
    ]
