"""Optimizer state as large as the parameters, on every rank."""

from __future__ import annotations

import pickle
from pathlib import Path

import sightline as sl
from support.memory_rules import assert_finds
from support.rules import assert_silent
from support.snapshots import opened
from support.training import train


def test_two_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.pickle").write_bytes(pickle.dumps(train()))
    run = sl.open(*(str(tmp_path / f"rank{rank}.pickle") for rank in range(2)), same_job=True)
    assert run.table("recordings").get_column("rank").to_list() == [0, 1]
    assert_finds(
        run,
        "optimizer-state-not-sharded",
        cost_bytes=200,
        gain_bytes=100,
        evidence=["Each of 2 ranks holds 200 B", "parameters: 100 B"],
        fix="fully_shard",
    )


def test_one_rank_has_nobody_to_share_with(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, train()), "optimizer-state-not-sharded")
