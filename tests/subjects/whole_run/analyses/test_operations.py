"""operations: each moment is one operation's own, and they sum to the breakdown."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from support.ask import rows
from support.traces import collective, copy, host, kernel, launched, op, opened


def test_who_has_a_moment(tmp_path: Path) -> None:
    """Compute before communication before copies; of two kernels the one that was there first."""
    run = opened(
        tmp_path,
        [
            kernel("a", 0, 40),
            kernel("b", 30, 30, stream=8),  # 10 µs beside a
            kernel("c", 35, 20, stream=9),  # wholly beside a and b
            collective(50, 30, stream=20),  # 10 µs beside b
            copy("Memcpy HtoD (Pinned -> Device)", 0, 100, 1, stream=21),
        ],
    )
    assert rows(run, "operations", "part", "name", "total_ns", "own_ns") == [
        ("compute", "a", 40_000, 40_000),
        ("compute", "b", 30_000, 20_000),
        ("exposed_comm", "ncclDevKernel_allreduce", 30_000, 20_000),
        ("exposed_copy", "Memcpy HtoD (Pinned -> Device)", 100_000, 20_000),
        ("compute", "c", 20_000, 0),
    ]


def test_where_it_was_launched(tmp_path: Path) -> None:
    """In a module, in a range of the program's, or in neither; steps are not places."""
    run = opened(
        tmp_path,
        [
            host("user_annotation", "ProfilerStep#3", 0, 400),
            host("python_function", "nn.Module: LayerNorm_4", 10, 90, **{"Python id": 1}),
            op("aten::layer_norm", 20, 60),
            op("aten::native_layer_norm", 25, 40),
            launched(30, kernel("norm", 500, 10)),
            host("user_annotation", "loss", 110, 40),
            launched(120, kernel("loss", 510, 9)),
            launched(200, kernel("alone", 519, 8)),
        ],
    )
    assert rows(run, "operations", "name", "operator", "outer_operator", "place") == [
        ("norm", "aten::native_layer_norm", "aten::layer_norm", "LayerNorm"),
        ("loss", None, None, "loss"),
        ("alone", None, None, None),
    ]


@pytest.mark.parametrize("seed", range(10))
def test_rows_sum_to_the_breakdown(tmp_path: Path, seed: int) -> None:
    """Random operations on four streams, in the whole window and in a part of it."""
    dice = random.Random(seed)
    events = []
    for i in range(60):
        at, length, stream = dice.randrange(500), dice.randrange(30), dice.randrange(4)
        kind = dice.choice(["kernel", "collective", "copy"])
        if kind == "kernel":
            events.append(kernel(f"k{i % 5}", at, length, stream=stream))
        elif kind == "collective":
            events.append(collective(at, length, stream=stream))
        else:
            events.append(copy("Memcpy DtoD (Device -> Device)", at, length, 8, stream=stream))
    whole = opened(tmp_path, events)
    for run in (whole, whole.with_window("100us..300us")):
        own = run.ask("operations").group_by("part").agg(pl.col("own_ns").sum())
        parts = dict(own.rows())
        assert rows(run, "breakdown", "compute_ns", "exposed_comm_ns", "exposed_copy_ns") == [
            tuple(parts.get(p, 0) for p in ("compute", "exposed_comm", "exposed_copy"))
        ]
