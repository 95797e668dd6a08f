"""Collectives without metadata: matched across ranks by order, where they end together."""

from __future__ import annotations

from pathlib import Path

import pytest

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
