"""Communication by group and size, with bandwidths worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline as door
from sightline.core.model.run import Run
from support import traces


def kernel(
    name: str, at: int, length: int, op: str, n_in: int, n_out: int, size: int = 4, **more: object
) -> traces.Event:
    told = {
        "Collective name": op,
        "dtype": "Float",
        "Process Group Name": "dp",
        "Group size": size,
        "In msg nelems": n_in,
        "Out msg nelems": n_out,
    }
    return traces.kernel(f"ncclDevKernel_{name}", at, length, **told, **more)


def asked(run: Run) -> dict[tuple[str, int | None], dict[str, object]]:
    return {(r["op"], r["bytes"]): r for r in run.ask("communication").rows(named=True)}


def test_bandwidths_are_those_of_nccl_tests(tmp_path: Path) -> None:
    """4 ranks; 4 MB in 100 µs is 40 GB/s; bus: ×1.5 all-reduce, ×0.75 gather and scatter, ×1."""
    run = traces.opened(
        tmp_path,
        [
            kernel("AllReduce", 0, 100, "allreduce", 1_000_000, 1_000_000),
            kernel("AllGather", 200, 100, "_allgather_base", 250_000, 1_000_000),
            kernel("ReduceScatter", 400, 100, "_reduce_scatter_base", 1_000_000, 250_000),
            kernel("Broadcast", 600, 100, "broadcast", 1_000_000, 1_000_000),
            kernel("AllReduce", 800, 50, "allreduce", 10, 10),
            kernel("AllReduce", 900, 30, "allreduce", 10, 10),
            traces.kernel("ncclKernel_Unknown", 1000, 20),
            traces.kernel("gemm", 1100, 20),
        ],
    )
    found = asked(run)
    bus = {op: row["bus_bandwidth_gb_per_s"] for (op, size), row in found.items() if size == 4e6}
    assert bus == {
        "allreduce": pytest.approx(60),
        "allgatherbase": pytest.approx(30),
        "reducescatterbase": pytest.approx(30),
        "broadcast": pytest.approx(40),
    }
    assert all(
        row["algorithm_bandwidth_gb_per_s"] == pytest.approx(40)
        for (_, size), row in found.items()
        if size == 4e6
    )
    small = found[("allreduce", 40)]
    counted = ("operations", "kernels", "kernel_ns", "mean_ns", "min_ns", "max_ns", "time_is")
    wanted = [2, 2, 80_000, 40_000, 30_000, 50_000, "kernel"]
    assert [small[c] for c in counted] == wanted
    bare = found[("ncclKernel_Unknown", None)]
    assert bare["bus_bandwidth_gb_per_s"] is None
    assert bare["kernel_ns"] == 20_000
    assert sum(r["kernel_pct"] for r in found.values()) == pytest.approx(100)


def test_waiting_for_a_late_rank_is_no_transfer(tmp_path: Path) -> None:
    """Rank 0 comes 60 µs before rank 1: its kernel takes 100 µs, the transfer 40 µs."""
    files = [
        traces.write(
            tmp_path,
            [kernel("AllReduce", at, 100 - at, "allreduce", 1_000_000, 1_000_000, size=2)],
            name=f"rank{rank}.json",
            distributedInfo={"rank": rank, "world_size": 2},
        )
        for rank, at in ((0, 0), (1, 60))
    ]
    row = asked(door.open(*map(str, files)))[("allreduce", 4_000_000)]
    assert (row["operations"], row["kernels"], row["kernel_ns"]) == (1, 2, 140_000)
    assert (row["mean_ns"], row["time_is"]) == (40_000, "transfer")
    assert row["bus_bandwidth_gb_per_s"] == pytest.approx(100)  # 2(n−1)/n is 1 for two ranks
