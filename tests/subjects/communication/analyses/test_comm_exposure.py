"""comm_exposure: what exposed communication consists of."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from support.ask import rows
from support.simulated import simulated
from support.traces import collective, kernel, opened, opened_ranks

PARTS = "pipeline_ns", "small_ns", "slow_ns", "transfer_ns", "waiting_ns"


def test_waiting_transfer_small_and_pipeline(tmp_path: Path) -> None:
    """Rank 0 is in the first collective 200 µs before rank 1; then a small one, and a receive."""
    both = [
        kernel("gemm", 0, 100),
        collective(400, 20, floats=100),
        collective(420, 30, "recv"),
    ]
    run = opened_ranks(tmp_path, [*both, collective(100, 300)], [*both, collective(300, 100)])
    assert rows(run, "comm_exposure", "rank", "window_ns", *PARTS) == [
        (0, 450_000, 30_000, 20_000, 0, 100_000, 200_000),
        (1, 450_000, 30_000, 20_000, 0, 100_000, 0),
    ]


def test_one_of_six_is_slow(tmp_path: Path) -> None:
    """Five transfers of 100 µs and one of 400, of the same size in the same group."""
    lengths = [100] * 5 + [400]
    rank = [collective(sum(lengths[:i]), length) for i, length in enumerate(lengths)]
    run = opened_ranks(tmp_path, rank, rank)
    assert rows(run, "comm_exposure", "rank", *PARTS) == [
        (0, 0, 0, 400_000, 500_000, 0),
        (1, 0, 0, 400_000, 500_000, 0),
    ]


def test_hidden_behind_compute(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("gemm", 0, 100), collective(20, 100, stream=9)])
    assert rows(run, "comm_exposure", *PARTS) == [(0, 0, 0, 20_000, 0)]


@pytest.mark.parametrize("scenario", ["random_program", "exposed_communication", "straggler"])
def test_the_parts_sum_to_all_exposed_communication(scenario: str) -> None:
    run = simulated(scenario).run
    comm = run.ask("comm_exposure").select(pl.sum_horizontal(PARTS)).to_series().to_list()
    assert comm == run.ask("breakdown").get_column("exposed_comm_ns").to_list()
