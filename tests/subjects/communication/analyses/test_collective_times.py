"""Each collective's skew, transfer and bandwidth, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import collective, opened_job
from support.traces import opened_ranks


def test_skew_transfer_and_bandwidth(tmp_path: Path) -> None:
    """Rank 2 comes 30 µs after rank 1, which is 50 behind rank 0; then 4 MB in 100 µs."""
    run = opened_job(tmp_path, [[0, 50, 80]])
    row = run.ask("collective_times").row(0, named=True)
    assert (row["kind"], row["grade"], row["last_rank"]) == ("all_reduce", "order", 2)
    known = {c: row[c] for c in ("skew_ns", "transfer_ns", "waited_ns", "adds_ns")}
    assert known == {
        "skew_ns": 80_000,
        "transfer_ns": 100_000,
        "waited_ns": 110_000,
        "adds_ns": 30_000,
    }
    assert row["algorithm_bandwidth_gb_per_s"] == pytest.approx(40)
    assert row["bus_bandwidth_gb_per_s"] == pytest.approx(40 * 4 / 3)
    assert row["skew_is_known"] is None  # one collective says nothing of the clocks


def test_sequence_numbers_match_where_recordings_begin_at_different_ones(tmp_path: Path) -> None:
    """Rank 1's recording lacks the first: by order every pair would be wrong."""
    events = [
        [collective(1_000 * k, 100, members=(0, 1), Seq=k) for k in range(first, 5)]
        for first in (0, 1)
    ]
    times = opened_ranks(tmp_path, *events).ask("collective_times")
    assert times["sequence"].to_list() == [1, 2, 3, 4]
    assert set(times["grade"]) == {"sequence"}
    assert set(times["skew_ns"]) == {0}


def test_groups_of_one_name_and_different_ranks_are_different(tmp_path: Path) -> None:
    pairs = [(0, 1), (0, 1), (2, 3), (2, 3)]
    events = [[collective(10 * rank, 100, members=pair)] for rank, pair in enumerate(pairs)]
    times = opened_ranks(tmp_path, *events).ask("collective_times")
    assert times.select("group_size", "skew_ns").rows() == [(2, 10_000), (2, 10_000)]


def test_a_skew_below_the_clocks_uncertainty_is_not_known(tmp_path: Path) -> None:
    came = [[1_000 * k, 1_000 * k + (0.5 if k % 2 else 400)] for k in range(20)]
    events = [
        [
            collective(c[r], max(c) + 100 + 3 * r * (k % 3) - c[r], members=(0, 1))
            for k, c in enumerate(came)
        ]
        for r in (0, 1)
    ]
    times = opened_ranks(tmp_path, *events).ask("collective_times")
    assert times["skew_is_known"].to_list() == [not k % 2 for k in range(20)]
