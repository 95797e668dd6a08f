"""Collectives without metadata: matched across ranks by order, where they end together."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import collective
from support.traces import kernel, opened_ranks

NCCL = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"


def ranks(folder: Path, *, apart: int = 20, count: int = 6, name: str = NCCL):
    """Two ranks with so many collectives, each ending `apart` µs later on the second."""
    first = [kernel(name, 1_000 * i, 500) for i in range(count)]
    second = [kernel(name, 1_000 * i + 300, 200 + apart) for i in range(count)]
    return opened_ranks(folder, first, second)


def test_the_kth_of_a_name_is_the_same_on_every_rank(tmp_path: Path) -> None:
    nodes = ranks(tmp_path).ask("dependencies").drop_nulls("meeting")
    assert nodes.group_by("meeting").len().get_column("len").to_list() == [2] * 6


@pytest.mark.parametrize(
    "otherwise",
    [{"apart": 101}, {"count": 2}, {"name": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)"}],
    ids=["far apart", "too few", "sends"],
)
def test_nothing_is_concluded_where_they_do_not_look_alike(tmp_path: Path, otherwise) -> None:
    assert ranks(tmp_path, **otherwise).ask("dependencies")["meeting"].null_count() == (
        12 if "count" not in otherwise else 4
    )


def test_sends_meet_receives_by_source_and_target(tmp_path: Path) -> None:
    """Rank 1 receives from 0 and sends to 2; rank 2 is there first, and receives when it comes."""
    told = {"members": range(4), "Process Group Name": "pp"}

    def send(at: float, length: float, to: int):
        return collective(at, length, op="send", **told, **{"Dst Rank": to})

    def receive(at: float, length: float, of: int):
        return collective(at, length, op="recv", **told, **{"Src Rank": of})

    run = opened_ranks(
        tmp_path,
        [send(100, 50, 1), send(300, 50, 1)],
        [receive(80, 70, 0), send(160, 40, 2), receive(290, 60, 0)],
        [receive(10, 190, 1)],
    )
    rows = run.ask("collective_times").select("kind", "last_rank", "skew_ns", "transfer_ns").rows()
    assert rows == [
        ("send_recv", 1, 150_000, 40_000),
        ("send_recv", 0, 20_000, 50_000),
        ("send_recv", 0, 10_000, 50_000),
    ]
