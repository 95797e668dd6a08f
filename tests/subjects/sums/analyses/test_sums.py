"""Sums by name: shares of their kind, and rates of copies."""

from __future__ import annotations

from pathlib import Path

from support.printed import DOWN, MS, UP, open_sums


def test_each_name_with_its_share_and_rate(tmp_path: Path) -> None:
    run = open_sums(
        tmp_path,
        kernels=[("a()", 10, 30 * MS, 4 * MS), ("b()", 5, 10 * MS, 3 * MS)],
        copies=[(UP, 2, 50 * MS, 30 * MS), (DOWN, 1, 50 * MS, 50 * MS)],
        sizes=[(UP, 2, 500.0)],
        calls=[("cudaMalloc", 3, 9 * MS, 8 * MS)],
    )
    found = run.ask("sums")
    assert found.select("what", "name", "calls", "total_ns", "total_pct", "mean_ns").rows() == [
        ("kernel", "a()", 10, 30 * MS, 75.0, 3 * MS),
        ("kernel", "b()", 5, 10 * MS, 25.0, 2 * MS),
        ("memcpy", DOWN, 1, 50 * MS, 50.0, 50 * MS),
        ("memcpy", UP, 2, 50 * MS, 50.0, 25 * MS),
        ("runtime", "cudaMalloc", 3, 9 * MS, 100.0, 3 * MS),
    ]
    assert found["bytes"].to_list() == [None, None, None, 500_000_000, None]
    assert found["gb_per_s"].to_list() == [None, None, None, 10.0, None]
