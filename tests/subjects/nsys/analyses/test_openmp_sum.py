"""openmp_sum: OpenMP events by name."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.exports import opened
from synth_nsys import Export, gtid


def test_a_parallel_region(tmp_path: Path) -> None:
    export = Export()
    export.add(
        "OPENMP_EVENT_KIND_PARALLEL",
        start=50,
        end=70,
        nameId=export.text("Parallel"),
        globalTid=gtid(7, 7),
    )
    fields = "Total Time (ns)", "Count", "Name"
    assert rows(opened(tmp_path, export), "openmp_sum", *fields) == [(20, 1, "Parallel")]
