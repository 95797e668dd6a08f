"""AMD's recordings: one program in every form, and real ones against independent readings."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sightline
from support.corpus import list_recordings, name_recording
from synth_rocm import GUID, PID, TID, write_csv, write_json, write_rocpd

FORMS = {
    "json": lambda folder: write_json(folder / "r.json"),
    "csv": lambda folder: write_csv(folder / "out"),
    "rocpd-3": lambda folder: write_rocpd(folder / "r.db", 3),
    "rocpd-4": lambda folder: write_rocpd(folder / "r.db", 4),
}
OPS = ("kind", "name", "device_id", "stream_id", "start_ns", "end_ns", "copy_kind", "launch")
SHAPES = ("grid_x", "grid_y", "block_x", "block_y", "registers_per_thread", "shared_bytes")


@pytest.fixture(params=FORMS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> sightline.Run:
    return sightline.open(str(FORMS[request.param](tmp_path)))


def test_device_operations_and_what_launched_them(run: sightline.Run) -> None:
    calls = run.table("host_ops").select(launch_id="host_op_id", launch="name")
    ops = run.table("device_ops").join(calls, on="launch_id", how="left", maintain_order="left")
    copy = "MEMORY_COPY_"
    assert ops.select(OPS).rows() == [
        ("memcpy", copy + "HOST_TO_DEVICE", 1, 5, 1_200, 1_900, "HtoD", "hipMemcpyAsync"),
        ("kernel", "gemm(float*)", 1, 5, 2_000, 5_000, None, "hipLaunchKernel"),
        ("kernel", "scale(float*)", 1, 5, 5_100, 5_900, None, "hipLaunchKernel"),
        ("memcpy", copy + "DEVICE_TO_DEVICE", 0, 5, 6_000, 6_500, "PtoP", "hipMemcpyPeerAsync"),
    ]
    # Blocks are workgroups: 1,024 × 6 work-items in groups of 256 × 4; 1,000 in groups of 256.
    kernels = ops.filter(pl.col("kind") == "kernel")
    assert kernels.select(SHAPES).rows() == [(4, 2, 256, 4, 128, 4096), (4, 1, 256, 1, 8, 0)]
    assert kernels.get_column("local_bytes_per_thread").to_list() == [0, 16]


def test_calls_and_markers_nest(run: sightline.Run) -> None:
    ranges = run.table("host_ops").select(
        "layer", "name", "depth", "range_kind", "pid", "tid", "start_ns"
    )
    in_order = sorted(ranges.rows(), key=lambda row: row[-1])
    assert {row[4:6] for row in in_order} == {(PID, TID)}
    assert [row[:4] for row in in_order] == [
        ("runtime", "hipMalloc", 0, None),
        ("annotation", "step 1", 0, "pushpop"),
        ("runtime", "hipMemcpyAsync", 1, None),
        ("driver", "hsa_amd_memory_async_copy", 2, None),
        ("runtime", "hipLaunchKernel", 1, None),
        ("runtime", "hipLaunchKernel", 1, None),
        ("runtime", "hipMemcpyPeerAsync", 1, None),
        ("annotation", "halfway", 0, "mark"),
        ("runtime", "hipFree", 0, None),
    ]


def test_a_free_has_the_size_and_device_of_its_allocation(run: sightline.Run) -> None:
    found = run.table("memory_events").select(
        "time_ns", "action", "device_id", "bytes", "memory_kind"
    )
    assert found.rows() == [(800, "alloc", 1, 4096, "device"), (7_150, "free", 1, 4096, "device")]


def test_devices_are_numbered_as_gpus_and_counters_summed(run: sightline.Run) -> None:
    devices = run.table("devices").select("device_id", "vendor", "name", "sm_count", "max_clock_hz")
    name = "AMD Instinct MI300X"
    assert devices.rows() == [(i, "amd", name, 304, 2_100_000_000) for i in (0, 1)]
    counters = run.table("counters").select("metric", "device_id", "from_ns", "time_ns", "value")
    assert counters.rows() == [("SQ_WAVES", 1, 2_000, 5_000, 128.0)]


def test_what_is_said_of_the_recording(run: sightline.Run) -> None:
    """Nothing is missing; but counters were collected, so that its gaps mean nothing."""
    assert run.table("quality").get_column("kind").to_list() == ["serialized_kernels"]
    assert not [f for f in sightline.findings(run) if f.rule == "gpu-idle" and not f.abstained]


def test_processes_of_one_database_keep_their_own_calls(tmp_path: Path) -> None:
    """Each numbers its records by itself, so that all numbers come twice."""
    path = write_rocpd(tmp_path / "r.db", 3)
    write_rocpd(path, 3, GUID[:-1] + "2", PID + 1)
    run = sightline.open(str(path))
    joined = run.table("device_ops").join(
        run.table("host_ops"), left_on="launch_id", right_on="host_op_id"
    )
    assert joined.height == 8
    assert joined.filter(pl.col("pid") != pl.col("pid_right")).is_empty()
    assert sorted(joined.get_column("pid").unique()) == [PID, PID + 1]


def test_a_file_alone_says_what_it_lacks(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "out")
    run = sightline.open(str(folder / f"{PID}_kernel_trace.csv"))
    assert run.table("device_ops").select("name", "device_id", "pid").rows() == [
        ("gemm(float*)", 0, PID),
        ("scale(float*)", 0, PID),
    ]
    assert run.table("quality").get_column("kind").to_list() == ["no_api_calls"]


@pytest.mark.parametrize(
    ("table", "column"), [("info_kernel_symbol", "arch_vgpr_count"), ("info_thread", "tid")]
)
def test_blobs_where_numbers_should_be(tmp_path: Path, table: str, column: str) -> None:
    """All else of the kernels is read."""
    whole, path = (write_rocpd(tmp_path / name) for name in ("whole.db", "r.db"))
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE \"rocpd_{table}{GUID}\" SET {column} = x'ff00'")
    kept = ("name", "start_ns", "end_ns", "device_id")
    ops = [sightline.open(str(given)).table("device_ops").select(kept) for given in (path, whole)]
    assert_frame_equal(*ops)


def test_the_machine_is_not_named_unless_asked(tmp_path: Path) -> None:
    for path in (write_json(tmp_path / "r.json"), write_rocpd(tmp_path / "r.db")):
        assert sightline.open(str(path)).table("recordings").item(0, "host") is None
        kept = sightline.open(str(path), keep_identity=True)
        assert kept.table("recordings").item(0, "host") == "secret-host"


def test_a_csv_cut_within_a_line(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "out")
    path = folder / f"{PID}_kernel_trace.csv"
    path.write_bytes(path.read_bytes()[:-30])
    run = sightline.open(str(path))
    assert run.table("device_ops").height == 1
    assert "its last line is cut off, and left out" in run.table("quality").item(0, "text")


def test_a_json_cut_anywhere_keeps_what_comes_before(tmp_path: Path) -> None:
    whole = write_json(tmp_path / "r.json").read_text()
    cut = tmp_path / "cut.json"
    at = whole.index('"memory_copy"') - 60  # within the second kernel
    cut.write_text(whole[:at])
    run = sightline.open(str(cut))
    assert run.table("device_ops").item(0, "name") == "gemm(float*)"
    assert "truncated" in run.table("quality").get_column("kind").to_list()
    cut.write_text(whole[: whole.index('"callback_records"') + 30])
    with pytest.raises(sightline.DamagedError, match="cut off or damaged before its first record"):
        sightline.open(str(cut))


def test_a_damaged_csv_keeps_the_other_lines_and_files(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "out")
    path = folder / f"{PID}_hip_api_trace.csv"
    text = path.read_text().replace('"hipMalloc"', '"hipMalloc"x"')
    path.write_text(text)
    run = sightline.open(str(folder))
    assert run.table("device_ops").height == 4
    assert run.table("host_ops").height >= 8
    assert "damaged_lines" in run.table("quality").get_column("kind").to_list()


def write_second_program(folder: Path, later_ns: int) -> None:
    """A second process's kernels and calls, begun so long after the first one's."""
    for kind in ("kernel_trace", "hip_api_trace"):
        table = pl.read_csv(folder / f"{PID}_{kind}.csv").with_columns(
            pl.col("Start_Timestamp", "End_Timestamp") + later_ns
        )
        if "Process_Id" in table.columns:
            table = table.with_columns(Process_Id=pl.lit(PID + 7))
        table.write_csv(folder / f"{PID + 7}_{kind}.csv", quote_style="non_numeric")


def test_counters_of_an_agent_without_a_number(tmp_path: Path) -> None:
    """Of which GPU they are is unknown, so that they are left out, and counted."""
    path = tmp_path / "4242_counter_collection.csv"
    names = "Correlation_Id,Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value"
    rows = [f"3,1,{agent},gemm,SQ_WAVES,128.0,2000,5000" for agent in ("Agent 3", "x", "")]
    path.write_text("\n".join([f"{names},Start_Timestamp,End_Timestamp", *rows, ""]))
    run = sightline.open(str(path))
    assert run.table("counters").height == 1
    said = {q["kind"]: q["count"] for q in run.table("quality").to_dicts()}
    assert said["unnamed_agents"] == 2


def test_a_folder_of_several_programs_is_not_one_recording(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "out")
    write_second_program(folder, 3 * 3600 * 10**9)
    with pytest.raises(sightline.InputError) as told:
        sightline.open(str(folder))
    assert told.value.what == f"{folder} holds recordings of 2 programs"
    assert told.value.why is not None
    assert "ended 2 hours before" in told.value.why
    assert told.value.hint is not None
    assert f"  {PID + 7}_hip_api_trace.csv, {PID + 7}_kernel_trace.csv" in told.value.hint


def test_processes_with_a_pause_between_them_are_noted(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "out")
    write_second_program(folder, 5 * 10**9)
    notes = sightline.open(str(folder)).table("quality")
    assert "processes ran one after another, with 5.000 s between them" in str(
        notes.filter(kind="separate_processes").get_column("text").to_list()
    )


def test_processes_at_the_same_time_are_one_recording(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "out")
    write_second_program(folder, 1_000)
    run = sightline.open(str(folder))
    assert "separate_processes" not in run.table("quality").get_column("kind")
    assert run.table("device_ops").get_column("pid").n_unique() == 2


def test_another_sqlite_file_named_alike(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.db")
    db.execute("CREATE TABLE rocpd_nothing (id INTEGER)")
    db.commit()
    db.close()
    with pytest.raises(sightline.InputError, match="without rocpd's tables of strings"):
        sightline.open(str(tmp_path / "x.db"))


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("rocpd/**/*.db"), ids=name_recording)
def test_a_real_database_holds_what_its_own_views_say(path: Path) -> None:
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    run = sightline.open(str(path))
    kernels = (
        "SELECT K.name, K.start, K.end, K.agent_type_index, K.stream_id, K.workgroup_x, "
        "(K.grid_x + K.workgroup_x - 1) / K.workgroup_x, K.lds_size, R.name "
        "FROM kernels K LEFT JOIN regions R ON R.stack_id = K.stack_id ORDER BY K.start"
    )
    calls = run.table("host_ops").select(launch_id="host_op_id", launch="name")
    ours = run.table("device_ops").join(calls, on="launch_id", how="left", maintain_order="left")
    wanted = ("name", "start_ns", "end_ns", "device_id", "stream_id", "block_x", "grid_x")
    assert ours.select(*wanted, "shared_bytes", "launch").rows() == db.execute(kernels).fetchall()
    regions = "SELECT name, start, end, pid, tid FROM regions ORDER BY start, end DESC"
    found = run.table("host_ops").sort("start_ns", "end_ns", descending=[False, True])
    assert (
        found.select("name", "start_ns", "end_ns", "pid", "tid").rows()
        == db.execute(regions).fetchall()
    )
    db.close()


@pytest.mark.corpus
def test_a_real_json_holds_its_kernels(corpus: Path) -> None:
    path = corpus / "rocprofv3/AMD-AGI__TraceLens/rocprof/908_results.json.gz"
    tool = json.loads(gzip.decompress(path.read_bytes()))["rocprofiler-sdk-tool"][0]
    names = {s["kernel_id"]: s["formatted_kernel_name"] for s in tool["kernel_symbols"]}
    theirs = Counter[str]()
    for record in tool["buffer_records"]["kernel_dispatch"]:
        length = record["end_timestamp"] - record["start_timestamp"]
        theirs[names[record["dispatch_info"]["kernel_id"]]] += length
    ops = sightline.open(str(path)).table("device_ops")
    sums = ops.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    assert dict(sums.iter_rows()) == theirs
    assert ops.get_column("device_id").unique().to_list() == [0]


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("rocprofv3/**/*_trace.csv"), ids=name_recording)
def test_a_real_csv_holds_its_rows(path: Path) -> None:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if "Function" not in rows[0] and "Kernel_Name" not in rows[0] and "Direction" not in rows[0]:
        pytest.skip("no timeline in it")
    run = sightline.open(str(path))
    table = "host_ops" if "Function" in rows[0] else "device_ops"
    ours = run.table(table).select("start_ns", "end_ns").sort(pl.all())
    times = [(int(r["Start_Timestamp"]), int(r["End_Timestamp"])) for r in rows]
    theirs = pl.DataFrame([t for t in times if t[1] >= t[0]], ours.schema, orient="row")
    assert_frame_equal(ours, theirs.sort(pl.all()))
    left_out = run.table("quality").filter(pl.col("kind") == "damaged_times")
    assert left_out.get_column("count").sum() == len(times) - ours.height


@pytest.mark.corpus
def test_scratch_memory_of_a_real_recording_takes_its_time(corpus: Path) -> None:
    path = corpus / "rocprofv3/ROCm__rocm-systems/scratch_memory_trace.csv"
    with path.open() as stream:
        rows = list(csv.DictReader(stream))
    expected = [
        (row["Operation"], "driver", int(row["Start_Timestamp"]), int(row["End_Timestamp"]))
        for row in rows
    ]
    found = sightline.open(str(path)).table("host_ops")
    assert found.select("name", "layer", "start_ns", "end_ns").rows() == expected


def test_scratch_memory_of_json(tmp_path: Path) -> None:
    path = write_json(tmp_path / "r.json")
    document = json.loads(path.read_text())
    process = document["rocprofiler-sdk-tool"][0]
    kinds = process["strings"]["buffer_records"]
    operations = ["SCRATCH_MEMORY_NONE", "SCRATCH_MEMORY_ALLOC"]
    kinds.append({"kind": "SCRATCH_MEMORY", "operations": operations})
    times = {"start_timestamp": 500, "end_timestamp": 900, "thread_id": TID}
    record = {"kind": len(kinds) - 1, "operation": 1, "flags": 0, **times}
    process["buffer_records"]["scratch_memory"] = [record]
    path.write_text(json.dumps(document))
    calls = sightline.open(str(path)).table("host_ops").filter(name="SCRATCH_MEMORY_ALLOC")
    assert calls.select("layer", "start_ns", "end_ns").rows() == [("driver", 500, 900)]
