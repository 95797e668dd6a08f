"""Logs of NCCL and its tests under a launcher, and what they say of failures and slow networks."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run

HEAD = "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20\n"
RANKS = "".join(
    f"#  Rank  {n} Group  0 Pid  1{n} on  n1 device  {n} [0x0{n}] NVIDIA A100\n" for n in range(2)
)


def open_log(tmp_path: Path, text: str) -> Run:
    path = tmp_path / "run.log"
    path.write_text(text)
    return sightline.open(str(path))


@pytest.mark.parametrize("has_reduction", [True, False])
def test_rows_with_a_launchers_tags_in_them(tmp_path: Path, has_reduction: bool) -> None:
    names, cells = (" redop root", "sum -1") if has_reduction else ("", "")
    text = HEAD + RANKS
    text += f"#  size  count  type{names}  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    text += f"  16777216  4194304  float {cells}  100.0 [1,1]<stdout>: 167.77  167.77  0"
    text += "  100.0  167.77  167.77  0\n"
    tagged = "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines())
    table = open_log(tmp_path, tagged).table("bandwidth_tests")
    assert table.select("bytes", "duration_ns", "group_size").rows() == [(1 << 24, 100_000, 2)] * 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("libfabric:1:2::core:core:x():294<warn> Failed to dlopen libcuda.so", "libcuda.so"),
        ("n1:1:2 [0] NCCL WARN NET/OFI Unable to register memory (type = 2). RC: -22", "register"),
        ("n1: Test NCCL failure common.cu:891 'unhandled system error'", "Test NCCL failure"),
        ("srun: error: n1: tasks 0-3: Exited with exit code 3", "exit code 3"),
        ("  Process name: [[1234,1],0]\n  Exit code:    3", "Exit code:    3"),
    ],
)
def test_a_test_without_results_says_why(tmp_path: Path, line: str, said: str) -> None:
    quality = open_log(tmp_path, HEAD + RANKS + line + "\n").table("quality")
    [text] = quality.filter(pl.col("kind") == "test_failed").get_column("text").to_list()
    assert said in text


def test_rows_with_a_root_and_no_reduction(tmp_path: Path) -> None:
    """As older versions of broadcast_perf print: `size count type root time algbw busbw error`."""
    text = HEAD + RANKS + "#  size  count  type  root  time  algbw  busbw  error  time  algbw\n"
    text = text.replace("time  algbw\n", "time  algbw  busbw  error\n")
    text += (
        "  16777216  4194304  float  1  100.0  167.77  167.77  0e+00  90.0  186.4  186.4  0e+00\n"
    )
    table = open_log(tmp_path, text).table("bandwidth_tests")
    told = ("bytes", "reduction", "root", "duration_ns")
    assert table.select(told).rows() == [
        (1 << 24, None, 1, 100_000),
        (1 << 24, None, 1, 90_000),
    ]


def test_the_first_line_of_nccl_may_come_late(tmp_path: Path) -> None:
    before = "".join(f"2026-11-01 10:00:00 INFO warm-up, step {n}\n" for n in range(4_248))
    line = "n1:71:92 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n"
    assert open_log(tmp_path, before + line).rows("nccl_channels") == 1


def test_sockets_between_hosts_and_a_slow_bootstrap(tmp_path: Path) -> None:
    info = "n1:71:92 [0] NCCL INFO "
    lines = (
        "comm 0x55d rank 0 nranks 16 cudaDev 0 busId 1a000 commId 0xabc - Init START",
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0",
        "Init timings - ncclCommInitRankConfig: rank 0 nranks 16 total 4.10 (kernels 0.20, alloc "
        "0.10, bootstrap 3.50, allgathers 0.10)",
    )
    text = "".join(f"{info}{line}\n" for line in lines)
    kinds = set(open_log(tmp_path, text).table("quality").get_column("kind"))
    assert {"socket_transport", "slow_bootstrap"} <= kinds
    fast = text.replace("NET/Socket/0", "NET/IB/0").replace("3.50", "0.05")
    kinds = set(open_log(tmp_path, fast).table("quality").get_column("kind"))
    assert not {"socket_transport", "slow_bootstrap"} & kinds


def test_channels_through_host_memory(tmp_path: Path) -> None:
    """Ways as NCCL prints them: from GPU to GPU, and by way of the host."""
    line = "node:1:2 [0] NCCL INFO Channel 0{}/0 : 0[0] -> 1[1] via {}\n"
    for name, ways, kinds in (
        ("p2p", ("P2P/CUMEM", "P2P/IPC"), set()),
        ("shm", ("SHM/direct/direct", "SHM/direct/direct"), {"shared_memory_transport"}),
    ):
        path = tmp_path / f"{name}.log"
        path.write_text("".join(line.format(n, way) for n, way in enumerate(ways)))
        noted = sightline.open(str(path)).table("quality").get_column("kind").to_list()
        assert {"shared_memory_transport"} & set(noted) == kinds
