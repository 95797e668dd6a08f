"""nvtx_sum: NVTX ranges of both styles by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError
from support.ask import rows
from support.exports import nested, opened
from synth_nsys import Export

SHOWN = "Time (%)", "Total Time (ns)", "Instances", "Style", "Range"


def test_ranges_of_two_styles(tmp_path: Path) -> None:
    answer = rows(nested(tmp_path), "nvtx_sum", *SHOWN)
    assert [row[1:] for row in answer] == [
        (1000, 1, "PushPop", "app:step"),
        (900, 1, "PushPop", ":elsewhere"),
        (860, 1, "StartEnd", ":across"),
        (860, 1, "StartEnd", ":whole"),
        (500, 1, "PushPop", ":compute"),
        (200, 1, "PushPop", ":load"),
    ]
    assert answer[0][0] == pytest.approx(100 * 1000 / 4320)


def test_no_ranges(tmp_path: Path) -> None:
    export = Export()
    export.kernel("k", 0, 10, 1)
    export.api("cudaLaunchKernel", 0, 5, 1)
    with pytest.raises(MissingDataError, match="no annotated ranges"):
        opened(tmp_path, export).ask("nvtx_sum")
