"""nvprof's traces as CSV: made by hand as its guide has them, units and all."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import DamagedError
from support.command import sightline

GPU = '''\
==15562== NVPROF is profiling process 15562, command: ./a.out
==15562== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",\
"Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context",\
"Stream","Name","Correlation_ID"
ms,us,,,,,,,,KB,B,MB,GB/s,,,,,,,
0.000000,1.888000,,,,,,,,,,0.5,0.507097,"Device",,"Tesla V100 (0)","1","7","[CUDA memset]",272
4.643346,1536.000000,,,,,,,,,,2.000000,1.3,"Pinned","Device","Tesla V100 (0)","1","22",\
"[CUDA memcpy HtoD]",316
7.000001,10.5005,57,2,1,128,1,1,32,1.5,64,,,,,"Tesla V100 (1)","1","7",\
"void scale<int, float>(float*, int) [487]",487
'''  # fmt: skip
API = '''\
======== Profiling result:
"Start","Duration","Name","Correlation_ID"
us,us,,
0.000000,2.866000,"cuDeviceGetPCIBusId",1
6863.518000,0.952000,"cudaLaunchKernel",487
'''  # fmt: skip


def open_text(folder: Path, text: str):
    path = folder / "nvprof.csv"
    path.write_text(text)
    return sl.open(str(path))


def test_operations_have_exact_times_sizes_and_shapes(tmp_path):
    ops = open_text(tmp_path, GPU).table("device_ops").sort("start_ns")
    assert ops.select("kind", "start_ns", "end_ns", "device_id", "stream_id").rows() == [
        ("memset", 0, 1_888, 0, 7),
        ("memcpy", 4_643_346, 6_179_346, 0, 22),
        ("kernel", 7_000_001, 7_010_501, 1, 7),  # 10,500.5 ns: half to even
    ]
    assert ops["bytes"].to_list() == [1 << 19, 2 << 20, None]
    copy, kernel = ops.row(1, named=True), ops.row(2, named=True)
    assert (copy["copy_kind"], copy["src_kind"], copy["dst_kind"]) == ("HtoD", "pinned", "device")
    assert kernel["name"] == "void scale<int, float>(float*, int)"
    assert (kernel["grid_x"], kernel["grid_y"], kernel["block_x"]) == (57, 2, 128)
    assert (kernel["static_shared_bytes"], kernel["dynamic_shared_bytes"]) == (1536, 64)


def test_devices_are_named_and_what_is_missing_is_said(tmp_path):
    run = open_text(tmp_path, GPU)
    assert run.table("devices").select("device_id", "vendor", "name").sort("device_id").rows() == [
        (0, "nvidia", "Tesla V100"),
        (1, "nvidia", "Tesla V100"),
    ]
    assert "no_host" in run.table("quality")["kind"].to_list()
    assert sightline(str(tmp_path / "nvprof.csv")).code == 0


def test_calls_of_both_apis(tmp_path):
    host = open_text(tmp_path, API).table("host_ops")
    assert host.select("layer", "name", "start_ns", "end_ns").rows() == [
        ("driver", "cuDeviceGetPCIBusId", 0, 2_866),
        ("runtime", "cudaLaunchKernel", 6_863_518, 6_864_470),
    ]


def test_both_traces_in_one_file_are_joined(tmp_path):
    run = open_text(tmp_path, GPU + API)
    kernel = run.table("device_ops").filter(kind="kernel")
    launch = run.table("host_ops").filter(name="cudaLaunchKernel")
    assert kernel["launch_id"].to_list() == launch["host_op_id"].to_list()


def test_rows_that_are_not_whole_are_counted(tmp_path):
    broken = GPU + "1,2\n" + '8.0,x,1,1,1,1,1,1,1,1,1,,,,,"Tesla V100 (0)","1","7","k",3\n'
    run = open_text(tmp_path, broken)
    assert run.rows("device_ops") == 3
    note = run.table("quality").filter(kind="damaged_lines")
    assert note["count"].to_list() == [2]
    with pytest.raises(DamagedError, match="no row of a trace"):
        open_text(tmp_path, GPU.split("ms,us")[0])
