"""What is kept of a rank: its collectives, and what lies between them, worked out by hand."""

from __future__ import annotations

from pathlib import Path

from sightline.fleet.reduce import reduce_rank
from support.jobs import collective
from support.traces import kernel, op, opened


def test_each_segment_is_compute_copies_and_idle_time(tmp_path: Path) -> None:
    """From 0: a kernel to 30, a copy to 50, idle to 60; the collective to 100; then a kernel."""
    copy = kernel("Memcpy HtoD", 25, 25, cat="gpu_memcpy")
    run = opened(
        tmp_path,
        [
            kernel("gemm", 0, 30),
            copy,
            collective(60, 40, members=(0, 1)),
            kernel("gemm", 110, 10),
            collective(130, 20, members=(0, 1)),
            kernel("gemm", 150, 15),
        ],
    )
    rank = reduce_rank(run, 3)
    shown = ("anchor", "segment_ns", "compute_ns", "copy_ns", "idle_ns", "kernels")
    assert rank.rows.select(shown).rows() == [
        (-1, 60_000, 30_000, 20_000, 10_000, 1),
        (0, 30_000, 10_000, 0, 20_000, 1),
    ]
    assert (rank.rank, rank.tail_ns) == (3, 15_000)
    assert rank.rows["rank"].to_list() == [3, 3]
    assert rank.rows["bytes"].to_list() == [4_000_000] * 2


def test_a_collective_beside_another_follows_the_one_that_had_ended(tmp_path: Path) -> None:
    both = {"members": (0, 1)}
    run = opened(
        tmp_path,
        [collective(0, 10, **both), collective(20, 50, **both), collective(40, 60, **both)],
    )
    assert reduce_rank(run, 0).rows["anchor"].to_list() == [-1, 0, 0]


def test_a_rank_without_device_operations_is_none(tmp_path: Path) -> None:
    assert reduce_rank(opened(tmp_path, [op("aten::mm", 0, 10)]), 0) is None
