"""scatter-contention: rows added onto few, on an H100 of 3.35 TB/s."""

from __future__ import annotations

from pathlib import Path

from support.operators import T, op, run_of
from support.rules import assert_silent, assert_speaks

RULE = "scatter-contention"
ROWS = T([100_000], "long int")
OTHER = op("aten::relu", [64])


def test_100000_rows_onto_four(tmp_path: Path) -> None:
    """25.6 MB are read and 2 kB written twice: 7.642 of 100 µs."""
    added = op("aten::index_add", [4, 64], "0", ROWS, [100_000, 64], "1")
    assert_speaks(
        run_of(tmp_path, added, OTHER),
        RULE,
        cost_ns=92_358,
        gain_ns=92_358,
        evidence=["1 × aten::index_add [[4,64],[],[100000],[100000,64],[]], 100.0 µs"],
        fix="segment_reduce",
        confidence="high",
        title="Atomic additions onto few rows",
    )


def test_32_rows_for_each_are_contended(tmp_path: Path) -> None:
    def run(rows: int) -> object:
        added = op("aten::scatter_add_", [1000, 64], "0", ROWS, [rows, 64])
        return run_of(tmp_path / str(rows), added, OTHER)

    assert_silent(run(31_999), RULE)
    assert_speaks(run(32_000), RULE, cost_ns=97_402, gain_ns=97_402, evidence=[], fix="sum")
