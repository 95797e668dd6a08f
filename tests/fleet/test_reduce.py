"""What is kept of a rank: its collectives, and what lies between them, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from polars.testing import assert_frame_equal

from sightline.fleet.read import reduce_run, reduce_runs
from sightline.fleet.reduce import reduce_ranks
from sightline.opening.run import open_run
from support.jobs import collective
from support.many_ranks import HOST, Cause, Program, write_ranks
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
    (rank,) = reduce_ranks(run)
    shown = ("anchor", "segment_ns", "compute_ns", "copy_ns", "idle_ns", "kernels")
    assert rank.rows.select(shown).rows() == [
        (-1, 60_000, 30_000, 20_000, 10_000, 1),
        (0, 30_000, 10_000, 0, 20_000, 1),
    ]
    assert (rank.rank, rank.tail_ns) == (0, 15_000)
    assert rank.rows["rank"].to_list() == [0, 0]
    assert rank.rows["bytes"].to_list() == [4_000_000] * 2


def test_a_collective_beside_another_follows_the_one_that_had_ended(tmp_path: Path) -> None:
    both = {"members": (0, 1)}
    run = opened(
        tmp_path,
        [collective(0, 10, **both), collective(20, 50, **both), collective(40, 60, **both)],
    )
    assert reduce_ranks(run)[0].rows["anchor"].to_list() == [-1, 0, 0]


def test_a_rank_without_device_operations_is_none(tmp_path: Path) -> None:
    assert reduce_ranks(opened(tmp_path, [op("aten::mm", 0, 10)])) == []


def test_ranks_of_one_pass_are_those_of_each_alone(tmp_path: Path) -> None:
    """Also where two recordings say the same rank, and where one cannot be read."""
    job = Program(3, steps=3, causes=(Cause(HOST, 1, 500_000),))
    names = [str(path) for path in write_ranks(job, tmp_path / "job")]
    names.append(names[0])
    alone = [list(reduce_run(open_run([name]))) for name in names]
    runs = [(str(n), open_run([name])) for n, name in enumerate(names)]
    given = [*runs[:2], ("no", "it is damaged"), *runs[2:]]
    for together in (10**9, 1):
        found = list(reduce_runs(given, together))
        assert [name for name, _ in found] == ["0", "1", "no", "2", "3"]
        assert found.pop(2) == ("no", "it is damaged")
        for own, (_, ranks) in zip(alone, found, strict=True):
            assert isinstance(ranks, list)
            (one,), (other,) = own, ranks
            assert_frame_equal(one.rows, other.rows)
            assert replace(one, rows=other.rows) == replace(other, rows=other.rows)
