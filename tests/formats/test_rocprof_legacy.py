"""rocprof's CSV and SQLite, rocprofv2's and roctracer's texts: rows, real ones, damage."""

from __future__ import annotations

import gzip
import re
import sqlite3
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.amd import rocprof_legacy
from support.damage import survive_damage

TRACER = """\
ROCTracer (pid=9):
0x1 agent gpu
4000000000:4000000100 9:11 hipLaunchKernel(function_address=0x1, args=(int) {1}) :5
4000000010:4000000020 9:11 hsa_signal_create(0, {handle=3}) = 0 :6
4000000200:4000000300 1:2 scale(float*, int):5:9
4000000400:4000000450 1:0 CopyDeviceToHost:7:9
4000000000 9:11 1:0:"outer"
4000000050 9:11 0:0:"a mark"
4000000060 9:11 3:8:"over threads"
4000000070 9:12 4:8:""
4000000500 9:11 2:0:""
PASSED!
"""
V2 = """\
Dispatch_ID(1), GPU_ID(4), Queue_ID(1), Process_ID(9), Thread_ID(9), Grid_Size(1024), \
Workgroup_Size(256), LDS(16), Scratch_Size(0), Arch_VGPR(8), Accumulative_VGPR(4), SGPR(16), \
Wave_Size(64), Kernel_Name("add(int, float)"), Begin_Timestamp(100), End_Timestamp(300), \
Correlation_ID(0), GRBM_COUNT(40539.000000)
Domain(HIP_API_DOMAIN), Function(hipMalloc), Start_Timestamp(10), End_Timestamp(20), \
Correlation_ID(2)
Domain(HSA_OPS_DOMAIN), Operation_Name(COPY), Start_Timestamp(400), End_Timestamp(410), \
Correlation_ID(3)
Domain(ROCTX_DOMAIN), Timestamp(12), ROCTX_ID(0), ROCTX_Message(ROCTX-RANGE: load)
Domain(ROCTX_DOMAIN), Timestamp(18), ROCTX_ID(0),
"""
TABLE = """\
"Index","KernelName","gpu-id","queue-id","queue-index","pid","tid","grd","wgr","lds","scr",\
"arch_vgpr","accum_vgpr","sgpr","wave_size","sig","obj","SQ_WAVES","DispatchNs","BeginNs",\
"EndNs","CompleteNs","DurationNs"
0,"scale(float*) [clone .kd]",8,0,0,9,9,1024,256,0,32,16,8,32,64,0x0,0x1,16,90,100,300,310,200
"""


def read(folder: Path, data: str | bytes) -> Imported:
    path = folder / "x"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    imported: Imported = rocprof_legacy.read(Source(path, "x"), ImportOptions())
    return imported


def test_lines_of_roctracer(tmp_path: Path) -> None:
    imported = read(tmp_path, TRACER)
    assert not [note for note in imported.quality if "left out" in note.text]
    tables = imported.tables
    second = 4_000_000_000
    ops = tables["device_ops"].sort("start_ns")
    columns = ("kind", "name", "start_ns", "end_ns", "device_id", "correlation_id", "copy_kind")
    assert ops.select(columns).rows() == [
        ("kernel", "scale(float*, int)", second + 200, second + 300, 0, 5, None),
        ("memcpy", "DEVICE_TO_HOST", second + 400, second + 450, 0, 7, "DtoH"),
    ]
    host = tables["host_ops"].sort("start_ns", "end_ns", descending=[False, True])
    assert host.select("layer", "name", "tid", "start_ns", "end_ns").rows() == [
        ("annotation", "outer", 11, second, second + 500),
        ("runtime", "hipLaunchKernel", 11, second, second + 100),
        ("driver", "hsa_signal_create", 11, second + 10, second + 20),
        ("annotation", "a mark", 11, second + 50, second + 50),
        ("annotation", "over threads", 11, second + 60, second + 70),
    ]
    launch = ops.get_column("launch_id")[0]
    assert tables["host_ops"].filter(host_op_id=launch).get_column("name").item() == (
        "hipLaunchKernel"
    )


ASYNC = """\
4000000000:4000000100 9:{other} hipMalloc(ptr=0x1, size=4) :2
4000000200:4000000900 9:11 hipMemcpy(dst=0x1, src=0x2, sizeBytes=4, kind=1) :4
4000001000:4000001100 9:{other} {call}(dst=0x1, src=0x2, sizeBytes=4, kind=2) :7
4000000300:4000000800 async-copy:0:9
4000001050:4000001150 async-copy:1:9
"""


@pytest.mark.parametrize(
    ("call", "other", "launched"),
    [
        # The second ends behind its call; of an asynchronous one, that says nothing.
        ("hipMemcpy", 11, [True, False]),
        ("hipMemcpyAsync", 11, [True, False]),
        # Of two threads that copy nobody can say whose copy it is.
        ("hipMemcpy", 12, [False, False]),
    ],
)
def test_a_copy_without_a_number_is_that_of_the_blocking_call_around_it(
    tmp_path: Path, call: str, other: int, launched: list[bool]
) -> None:
    tables = read(tmp_path, ASYNC.format(call=call, other=other)).tables
    ops = tables["device_ops"].sort("start_ns")
    assert ops.get_column("launch_id").is_not_null().to_list() == launched


def test_names_that_are_no_ascii_are_read_as_others(tmp_path: Path) -> None:
    imported = read(tmp_path, TRACER.replace("scale(", "größe("))
    names = imported.tables["device_ops"].sort("start_ns").get_column("name")
    assert names.to_list() == ["größe(float*, int)", "DEVICE_TO_HOST"]
    plain = read(tmp_path, TRACER.replace("float*, int", "float*"))
    assert "scale(float*)" in plain.tables["device_ops"].get_column("name")


def test_lines_of_rocprofv2(tmp_path: Path) -> None:
    tables = read(tmp_path, V2).tables
    ops = tables["device_ops"].sort("start_ns")
    columns = ("kind", "name", "start_ns", "end_ns", "grid_x", "block_x", "registers_per_thread")
    assert ops.select(columns).rows() == [
        ("kernel", "add(int, float)", 100, 300, 4, 256, 12),
        ("memcpy", "COPY", 400, 410, None, None, None),
    ]
    counters = tables["counters"].select("metric", "from_ns", "time_ns", "value").rows()
    assert counters == [("GRBM_COUNT", 100, 300, 40539.0)]
    host = tables["host_ops"].sort("start_ns").select("layer", "name", "start_ns", "end_ns")
    assert host.rows() == [("runtime", "hipMalloc", 10, 20), ("annotation", "load", 12, 18)]


def test_rows_of_rocprof(tmp_path: Path) -> None:
    tables = read(tmp_path, TABLE).tables
    columns = ("name", "start_ns", "end_ns", "grid_x", "block_x", "registers_per_thread")
    assert tables["device_ops"].select(columns).rows() == [("scale(float*)", 100, 300, 4, 256, 24)]
    assert tables["counters"].select("metric", "value").rows() == [("SQ_WAVES", 16.0)]


@pytest.mark.parametrize("golden", [TRACER, V2, TABLE], ids=["roctracer", "rocprofv2", "rocprof"])
def test_damage(tmp_path: Path, golden: str) -> None:
    survive_damage(rocprof_legacy.read, tmp_path / "x", golden)


# -- real recordings -----------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["MatrixTranspose_sys_trace", "MatrixTranspose_sys_hsa_trace"])
def test_a_text_has_as_many_records_as_lines(corpus: Path, name: str) -> None:
    """Counted by grep's own patterns: spans by what stands behind them, ranges by their ends."""
    folder = corpus / "rocprof_legacy/ROCm__rocm-systems/roctracer/test/golden_traces"
    path = folder / f"{name}.txt.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    run = sightline.open(str(path))
    kinds = r"(?:\d+:\d+ (?:matrixTranspose\(.*?\)|Copy\w+)|async-copy)"
    work = re.findall(rf"^(\d+):(\d+) {kinds}:\d+:\d+$", text, re.M)
    spans = len(re.findall(r"^\d{9,}:\d{9,} ", text, re.M))
    ops = run.table("device_ops")
    assert ops.height == len(work)
    assert ops.select(pl.col("end_ns") - pl.col("start_ns")).sum().item() == sum(
        int(end) - int(start) for start, end in work
    )
    host = run.table("host_ops")
    marks = len(re.findall(r"^\d+ \d+:\d+ [013]:", text, re.M))
    assert host.filter(layer="annotation").height == marks
    assert host.height == spans - len(work) + marks
    # HSA's copies have the numbers of the 200 blocking copies that they lie in.
    launches = 200 if name.endswith("hsa_trace") else 300
    assert ops.get_column("launch_id").count() == launches


@pytest.mark.corpus
def test_a_database_of_rocprof(corpus: Path) -> None:
    folder = corpus / "rocprof_legacy/amd__HPCTrainingExamples/rocm-blogs-codes"
    path = folder / "finite-difference/examples/results.db"
    run = sightline.open(str(path))
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    query = 'SELECT count(*), sum("DurationNs"), min("BeginNs"), max("EndNs") FROM KERN'
    ops = run.table("device_ops")
    found = ops.select(
        pl.len(),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("sum"),
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
    )
    assert found.row(0) == db.execute(query).fetchone()
