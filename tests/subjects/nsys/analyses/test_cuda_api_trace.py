"""cuda_api_trace: each API call, in order of start."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import MissingDataError
from support.ask import rows
from support.exports import nested, opened
from synth_nsys import Export

SHOWN = "Start (ns)", "Duration (ns)", "Name", "Result", "CorrID", "Pid", "Tid"


def test_four_calls_of_two_threads(tmp_path: Path) -> None:
    assert rows(nested(tmp_path), "cuda_api_trace", *SHOWN) == [
        (150, 50, "cudaMemcpyAsync", 0, 1, 7, 7),
        (450, 50, "cudaLaunchKernel", 0, 2, 7, 7),
        (600, 50, "cudaLaunchKernel", 0, 3, 7, 7),
        (600, 50, "cudaLaunchKernel", 0, 4, 7, 8),
    ]


def test_no_calls(tmp_path: Path) -> None:
    export = Export()
    export.kernel("k", 0, 10, 1)
    with pytest.raises(MissingDataError, match="cuda_api_trace"):
        opened(tmp_path, export).ask("cuda_api_trace")
