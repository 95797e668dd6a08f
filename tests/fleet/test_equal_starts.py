"""Kernels that begin at the same moment on two streams: their order in a file is chance."""

from __future__ import annotations

import itertools
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.fleet.answer import judge_ranks
from sightline.fleet.read import reduce_recordings
from sightline.views.comparison.ranks import describe_ranks, write_screen
from sightline.views.html.ranks import show_ranks

WORLD, STEP, US = 8, 66_800, 1_778_660_000_000_000


def kernel(name: str, stream: int, at: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": US + at,
            "dur": dur, "args": {"device": 0, "stream": stream, **args}}  # fmt: skip


def exchange(op: str, stream: int, at: float, dur: float, **args: Any) -> dict[str, Any]:
    told = {"Collective name": op, "In msg nelems": 1024, "dtype": "Float", **args}
    return kernel(f"ncclDevKernel_{op}", stream, at, dur, **told)


def make_rank(rank: int, *, swapped: bool) -> list[dict[str, Any]]:
    """Three steps: all-gather, eight gemms of 8 ms on rank 0 and 4 on others, reduce-scatter."""
    events = []
    group = {"Process Group Name": "dp", "Group size": 4, "Process Group Ranks": "[0, 1, 2, 3]"}
    for step in range(3):
        begin = step * STEP
        events.append(exchange("_allgather_base", 30, begin + 500, 100, **group))
        at = begin + 600.0
        for i in range(8):
            events.append(kernel("gemm", 7, at, 8000 if rank == 0 else 4000))
            at += 8000 if rank == 0 else 4000
            durations = (100, 200) if (rank + i) % 2 == 0 or not swapped else (200, 100)
            pair = {"Process Group Name": "pp", "Group size": 2}
            events += [
                exchange("send", 20, at, durations[0], **pair, **{"Dst Rank": rank + 4}),
                exchange("recv", 21, at, durations[1], **pair, **{"Src Rank": rank + 4}),
            ]
            at += 200
        events.append(exchange("_reduce_scatter_base", 30, at, begin + 66_500 - at, **group))
    return events


def write_ranks(folder: Path, ranks: list[list[dict[str, Any]]]) -> list[str]:
    paths = []
    for rank, events in enumerate(ranks):
        path = folder / f"rank{rank}.json"
        info = {"backend": "nccl", "rank": rank, "world_size": WORLD}
        content = {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}
        path.write_text(json.dumps(content))
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("swapped", [False, True])
def test_a_slow_rank_is_named_in_whatever_order_kernels_end(tmp_path: Path, swapped: bool) -> None:
    ranks = [make_rank(rank, swapped=swapped) for rank in range(4)]
    answer = judge_ranks(reduce_recordings(write_ranks(tmp_path, ranks)))
    assert answer.job.compared == 4
    assert answer.verdict.slowdown == pytest.approx(1.93, abs=0.02)
    assert answer.verdict.stragglers.row(0, named=True)["ranks"] == [0]


def test_without_peers_nothing_is_called_none(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, [make_rank(rank, swapped=True) for rank in range(2)])
    screen = write_screen(judge_ranks(reduce_recordings(paths)))
    assert "cannot be compared" in screen
    assert "no straggler" not in screen
    assert " × as long" not in screen


@pytest.mark.parametrize("has_members", [True, False])
def test_of_a_larger_group_the_recorded_ranks_are_matched(
    tmp_path: Path, has_members: bool
) -> None:
    """Four of eight ranks were recorded: they waited for each other, whatever the others did."""
    ranks = [make_rank(rank, swapped=True) for rank in range(4)]
    for event in itertools.chain.from_iterable(ranks):
        if event["args"].get("Process Group Name") == "dp":
            event["args"]["Group size"] = WORLD
            event["args"]["Process Group Ranks"] = str(list(range(WORLD))) if has_members else None
    answer = judge_ranks(reduce_recordings(write_ranks(tmp_path, ranks)))
    assert answer.job.rows.height - answer.job.unmatched == 4 * 3 * 2
    assert answer.verdict.slowdown == pytest.approx(1.93, abs=0.02)


def test_peers_without_a_matched_collective_are_no_all_clear(tmp_path: Path) -> None:
    """Of a group of eight in a job of sixteen nobody says which ranks it has."""
    ranks = [make_rank(rank, swapped=True) for rank in range(4)]
    for event in itertools.chain.from_iterable(ranks):
        if event["args"].get("Process Group Name") == "dp":
            del event["args"]["Process Group Ranks"]
            event["args"]["Group size"] = WORLD // 2 + 1
    answer = judge_ranks(reduce_recordings(write_ranks(tmp_path, ranks)))
    assert answer.job.compared == 4
    screen, data = write_screen(answer), describe_ranks(answer)
    page = " ".join(str(block) for block in show_ranks(answer))
    assert "none of their collectives could be matched" in data["not_compared"]
    for told in (screen, page):
        assert "cannot be compared: none of their collectives could be matched" in told
        assert "olds the others up" not in told
        assert "as long" not in told


@pytest.mark.campaign
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.randoms(use_true_random=False))
def test_no_exchange_of_equal_starts_changes_an_answer(tmp_path: Path, random: Any) -> None:
    ranks = [make_rank(rank, swapped=True) for rank in range(4)]
    before = judge_ranks(reduce_recordings(write_ranks(tmp_path, ranks))).verdict
    for events, n in product(ranks, range(len(ranks[0]) - 1)):
        if events[n]["ts"] == events[n + 1]["ts"] and random.random() < 0.5:
            events[n], events[n + 1] = events[n + 1], events[n]
    after = judge_ranks(reduce_recordings(write_ranks(tmp_path, ranks))).verdict
    assert (after.length_ns, after.ideal_ns) == (before.length_ns, before.ideal_ns)
    assert after.stragglers.equals(before.stragglers)
