"""um_cpu_page_faults_sum: page faults of the CPU by function."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import with_unified_memory


def test_one_fault_of_the_cpu(tmp_path: Path) -> None:
    """Those of the GPU are not its business."""
    assert rows(with_unified_memory(tmp_path), "um_cpu_page_faults_sum") == [(1, "fill")]
