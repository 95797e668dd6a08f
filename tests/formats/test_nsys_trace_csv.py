"""Traces of nsys stats: several reports in a text, a folder of files, units, odd rows, damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.nvidia import nsys_trace_csv
from support.command import sightline as command
from support.damage import survive_damage
from synth_nsys import Export

GPU = """\
Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),\
Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
100000,5000000,1,,,,,,,,,,84.000,16800.000,Pageable,Device,NVIDIA A100 (1),1,,7,[CUDA memcpy \
Host-to-Device]
5200000,900000,2,10,2,1,128,1,1,32,0.000,0.016,,,,,NVIDIA A100 (1),1,,7,"void k(int, float)"
6200000,1000,3,,,,,,,,,,0.004,4.000,,Device,NVIDIA A100 (1),1,,7,[CUDA memset]
"""
API = """\
Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name
50000,5060000,cudaMemcpy,0,1,77,78,20,app
5150000,5000,cuLaunchKernel,0,2,77,78,20,app
6100000,5000,cudaMemsetAsync,0,3,77,78,20,app
"""
PRINTED = f"""
NOTICE: Existing SQLite export found: x.sqlite
        It is assumed file was previously exported from: x.nsys-rep

Processing [x.sqlite] with [cuda_gpu_trace.py]...
{GPU}
Processing [x.sqlite] with [cuda_api_trace.py]...
{API}"""


def read(folder: Path, text: str) -> Imported:
    path = folder / "x.csv"
    path.write_text(text, encoding="utf-8")
    imported: Imported = nsys_trace_csv.read(Source(path, "x.csv"), ImportOptions())
    return imported


def check(run: sightline.Run) -> None:
    """The copy, the kernel and the fill of GPU, tied to the calls of API."""
    ops = run.table("device_ops").sort("start_ns")
    assert ops.get_column("kind").to_list() == ["memcpy", "kernel", "memset"]
    assert ops.select("start_ns", "end_ns").row(0) == (100_000, 5_100_000)
    assert ops.select("copy_kind", "src_kind", "dst_kind", "bytes").row(0) == (
        "HtoD", "pageable", "device", 84_000_000,
    )  # fmt: skip
    shape = ["grid_x", "grid_y", "block_x", "registers_per_thread", "dynamic_shared_bytes"]
    assert ops.select(shape).row(1) == (10, 2, 128, 32, 16_000)
    assert ops.get_column("device_id").unique().to_list() == [1]
    assert run.table("devices").get_column("name").to_list() == ["NVIDIA A100"]
    calls = dict(run.table("host_ops").select("host_op_id", "name").rows())
    assert [calls[i] for i in ops.get_column("launch_id")] == [
        "cudaMemcpy", "cuLaunchKernel", "cudaMemsetAsync",
    ]  # fmt: skip


def test_reports_that_were_printed_behind_each_other(tmp_path: Path) -> None:
    path = tmp_path / "stats.txt"
    path.write_text(PRINTED, encoding="utf-8")
    check(sightline.open(str(path)))


def test_a_folder_of_what_one_report_was_made_to(tmp_path: Path) -> None:
    (tmp_path / "run_cuda_gpu_trace.csv").write_text(GPU, encoding="utf-8")
    (tmp_path / "run_cuda_api_trace.csv").write_text(API, encoding="utf-8")
    check(sightline.open(str(tmp_path)))


def test_our_own_table_of_a_recording_gives_its_operations(tmp_path: Path) -> None:
    """`sightline stats cuda_gpu_trace` prints what the vendor's script does: read again."""
    export = Export()
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA A100", smCount=108)
    for n in range(5):
        export.api("cudaLaunchKernel", 1_000 * n, 1_000 * n + 90, n + 1)
        export.kernel(f"k{n}(int)", 1_000 * n + 100, 1_000 * n + 800, n + 1, gridX=n + 1, blockX=64)
    path = export.write(tmp_path / "run.sqlite")
    printed = command("stats", "cuda_gpu_trace", path, "--format", "csv").out
    again = tmp_path / "trace.csv"
    again.write_text(printed, encoding="utf-8")
    columns = ["name", "start_ns", "end_ns", "grid_x", "block_x", "stream_id", "correlation_id"]
    first, second = (
        sightline.open(str(p)).table("device_ops").select(columns).sort("start_ns")
        for p in (path, again)
    )
    begin = first.item(0, "start_ns") - second.item(0, "start_ns")  # of the session
    assert second.drop("start_ns", "end_ns").equals(first.drop("start_ns", "end_ns"))
    assert (first.get_column("end_ns") - begin).to_list() == second.get_column("end_ns").to_list()


@pytest.mark.parametrize(
    ("header", "start"),
    [("Start (us)", 100_000_000), ("Start(nsec)", 100_000), ('"Start (ms)"', 100_000_000_000)],
)
def test_units_stand_in_the_headers(tmp_path: Path, header: str, start: int) -> None:
    text = f"{header},Duration (ns),CorrId,Name\n100000,5,1,k\n"
    ops = read(tmp_path, text).tables["device_ops"]
    assert ops.item(0, "start_ns") == start


def test_times_keep_all_their_digits(tmp_path: Path) -> None:
    """More digits than a 64-bit float has: 2 ns of a day would be lost."""
    text = "Start (s),Duration (ns),CorrId,Name\n86400123.123456789,5,1,k\n"
    assert read(tmp_path, text).tables["device_ops"].item(0, "start_ns") == 86_400_123_123_456_789


def test_rows_that_are_none_are_counted(tmp_path: Path) -> None:
    text = f"{GPU}7000000,none,4,,,,,,,,,,,,,,,,,,k\n8000000\n{'9' * 30},1,5\n"
    imported = read(tmp_path, text)
    assert imported.tables["device_ops"].height == 3
    assert {q.kind: q.count for q in imported.quality}["damaged_lines"] == 3


def test_no_row_at_all(tmp_path: Path) -> None:
    header = API.splitlines()[0]
    with pytest.raises(DamagedError, match="it has a header and no row"):
        read(tmp_path, header + "\n")
    with pytest.raises(DamagedError, match="it has no complete row"):
        read(tmp_path, f"{header}\nx,y\n")


def test_damage(tmp_path: Path) -> None:
    survive_damage(nsys_trace_csv.read, tmp_path / "x", PRINTED)
