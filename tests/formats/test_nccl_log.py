"""Logs of NCCL: its lines apart from a program's, channels by communicator, and warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError

INIT = "ncclCommInitRank comm 0x55b6 rank {rank} nranks 2 cudaDev 0 busId 17000 commId {id} - Init"


def opened(folder: Path, *lines: str):
    (folder / "job.log").write_text("\n".join(lines) + "\n")
    return sightline.open(str(folder / "job.log"))


def test_channels_by_communicator(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        "node-a:71:71 [0] NCCL INFO NCCL version 2.27.7+cuda13.0",
        "node-a:71:92 [0] NCCL INFO " + INIT.format(rank=0, id="0xaa") + " START",
        "3: node-b:71:92 [1] NCCL INFO " + INIT.format(rank=1, id="0xbb") + " COMPLETE",
        "node-a:71:92 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read",
        "3: node-b:71:92 [1] NCCL INFO Channel 01/0 : 1[1] -> 0[0] [send] via NET/IB/3/GDRDMA",
        "node-a:71:99 [0] NCCL INFO Channel 02/0 : 1[1] -> 0[0] via SHM/direct/direct",
    )
    rows = run.table("nccl_channels").drop("rank", "recording_id").rows()
    assert rows[1:] == [
        ("0xbb", 2, 1, 1, 0, "send", "NET", "NET/IB/3/GDRDMA"),
        (None, None, 2, 1, 0, None, "SHM", "SHM/direct/direct"),  # of two, which is not known
    ]
    assert run.table("recordings")["tool_version"].to_list() == ["2.27.7+cuda13.0"]
    ways = run.ask("nccl_channels").select("transport", "via", "pairs", "channels").rows()
    assert ("NET", "NET/IB/GDRDMA", 1, 1) in ways


def test_warnings_are_said_once_without_addresses(tmp_path: Path) -> None:
    warning = "node-a:71:92 [0] misc/socket.cc:484 NCCL WARN connect to 10.2.3.4<99> failed"
    rows = opened(tmp_path, warning, warning).table("quality").select("count", "text").rows()
    assert rows == [(2, "NCCL: connect to (address)<99> failed")]


def test_a_benchmark_whose_lines_nccl_broke(tmp_path: Path) -> None:
    """Half of a result, NCCL's lines, the other half: as printed with NCCL_DEBUG=INFO."""
    run = opened(
        tmp_path,
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 8",
        "#  Rank  0 Group  0 Pid  71 on       mew0 device  0 [0000:17:00] NVIDIA A100 80GB PCIe",
        "#  Rank  1 Group  0 Pid  71 on       mew0 device  1 [0000:65:00] NVIDIA A100 80GB PCIe",
        "mew0:71:92 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read",
        "  8388608  2097152  float  sum  -1mew0:71:71 [1] NCCL INFO AllReduce: opCount 0",
        "mew0:71:71 [1] NCCL INFO AllReduce: opCount 0",
        "   80.0  104.86  104.86      0mew0:71:71 [0] NCCL INFO AllReduce: opCount 1",
        "    81.0  103.56  103.56      0",
    )
    tests = run.table("bandwidth_tests").select("op", "placement", "bytes", "duration_ns").rows()
    assert tests == [
        ("all_reduce", "out-of-place", 8_388_608, 80_000),
        ("all_reduce", "in-place", 8_388_608, 81_000),
    ]
    assert run.rows("nccl_channels") == 1


def test_lines_that_say_nothing(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="neither channels nor warnings"):
        opened(tmp_path, "node-a:71:92 [0] NCCL INFO Using network IB")
