"""The reports of `nsys stats` and the rules of `nsys analyze`, on exports worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.model.run import Run
from synth_nsys import Export, gtid

MS = 1_000_000


def opened(export: Export, folder: Path) -> Run:
    return sightline.open(str(export.write(folder / "e.sqlite")))


@pytest.fixture
def nested(tmp_path: Path) -> Run:
    """A step that holds two phases, each of which launches; another thread launches beside it."""
    e = Export()
    e.add("NVTX_EVENTS", start=0, eventType=75, text="app", globalTid=gtid(7, 7), domainId=2)
    e.range("step", 0, 1_000, domainId=2)
    e.range("load", 100, 300)
    e.range("compute", 400, 900)
    e.range("elsewhere", 50, 950, tid=8)
    e.range("whole", 90, 950, kind=60, rangeId=1, endGlobalTid=gtid(7, 7))
    e.range("across", 90, 950, kind=60, rangeId=2, endGlobalTid=gtid(7, 8))
    e.api("cudaMemcpyAsync_v3020", 150, 200, 1)
    e.copy(1, 1_000, 1_400, 1, 4_194_304, 1, 2)
    e.api("cudaLaunchKernel_v7000", 450, 500, 2)
    e.kernel("gemm(int)", 1_400, 2_400, 2)
    e.api("cudaLaunchKernel_v7000", 600, 650, 3)
    e.kernel("gemm(int)", 620, 720, 3, stream=8)
    e.api("cudaLaunchKernel_v7000", 600, 650, 4, tid=8)
    e.kernel("relu(int)", 3_000, 3_100, 4)
    return opened(e, tmp_path)


def test_push_pop_trace(nested: Run) -> None:
    rows = nested.ask("nvtx_pushpop_trace").rows()
    assert rows == [
        (0, 1000, 1000, 700, 300, "app:step", 7, 7, 0, 2, 1, None, ":1", "app:step"),
        (50, 950, 900, 0, 900, ":elsewhere", 7, 8, 0, 0, 2, None, ":2", ":elsewhere"),
        (100, 300, 200, 0, 200, ":load", 7, 7, 1, 0, 3, 1, ":1:3", "--:load"),
        (400, 900, 500, 0, 500, ":compute", 7, 7, 1, 0, 4, 1, ":1:4", "--:compute"),
    ]


def test_projection(nested: Run) -> None:
    answer = nested.ask("nvtx_gpu_proj_trace")
    columns = [
        "Name",
        "Projected Start (ns)",
        "Projected Duration (ns)",
        "Orig Start (ns)",
        "Style",
        "NumGPUOps",
        "Lvl",
        "NumChild",
        "RangeId",
        "RangeStack",
    ]
    assert answer.select(columns).rows() == [
        ("app:step", 620, 1780, 0, "PushPop", 3, 0, 2, 1, ":1"),
        (":compute", 620, 1780, 400, "PushPop", 2, 1, 0, 4, ":1:4"),
        # A range that ends on another thread is not projected; this one is.
        (":whole", 620, 1780, 90, "StartEnd", 3, 0, 0, 5, ":5"),
        (":load", 1000, 400, 100, "PushPop", 1, 1, 0, 3, ":1:3"),
        (":elsewhere", 3000, 100, 50, "PushPop", 1, 0, 0, 2, ":2"),
    ]
    summary = nested.ask("nvtx_gpu_proj_sum")
    assert summary.row(0, named=True)["Total Proj Time (ns)"] == 1780
    assert dict(summary.select("Range", "Total GPU Ops").rows()) == {
        "app:step": 3,
        ":compute": 2,
        ":whole": 3,
        ":load": 1,
        ":elsewhere": 1,
    }


def test_kernels_of_ranges(nested: Run) -> None:
    columns = [
        "NVTX Range",
        "Style",
        "TID",
        "NVTX Inst",
        "Kern Inst",
        "Total Time (ns)",
        "Kernel Name",
    ]
    assert nested.ask("nvtx_kern_sum", names="base").select(columns).rows() == [
        (":compute", "PushPop", 7, 1, 2, 1100, "gemm"),
        (":whole", "StartEnd", 7, 1, 2, 1100, "gemm"),
        ("app:step", "PushPop", 7, 1, 2, 1100, "gemm"),
        (":elsewhere", "PushPop", 8, 1, 1, 100, "relu"),
    ]


def test_launch_phases(nested: Run) -> None:
    rows = (
        nested.ask("cuda_kern_exec_trace")
        .select(
            "API Start (ns)",
            "Queue Start (ns)",
            "Queue Dur (ns)",
            "Total Dur (ns)",
            "GridXYZ",
            "Kernel Name",
        )
        .rows()
    )
    assert rows == [
        (450, 500, 900, 1950, " 128    1    1", "gemm(int)"),
        # It began before its launch call returned: no queue time.
        (600, None, None, 120, " 128    1    1", "gemm(int)"),
        (600, 650, 2350, 2500, " 128    1    1", "relu(int)"),
    ]
    summary = nested.ask("cuda_kern_exec_sum").row(1, named=True)
    assert (summary["Kernel Name"], summary["Count"], summary["QCount"]) == ("gemm(int)", 2, 1)
    assert (summary["QAvg (ns)"], summary["TAvg (ns)"], summary["KMax (ns)"]) == (900, 1035, 1000)


@pytest.mark.parametrize(
    ("report", "column"),
    [
        ("cuda_gpu_kern_sum", "Name"),
        ("cuda_gpu_kern_gb_sum", "Name"),
        ("cuda_gpu_trace", "Name"),
        ("cuda_gpu_sum", "Operation"),
        ("cuda_api_gpu_sum", "Operation"),
        ("cuda_kern_exec_sum", "Kernel Name"),
        ("cuda_kern_exec_trace", "Kernel Name"),
    ],
)
def test_kernels_under_their_innermost_range(nested: Run, report: str, column: str) -> None:
    """Of start/end ranges, which need not nest, none is innermost."""
    names = set(nested.ask(report, names="base", nvtx_name=1).get_column(column))
    plain = set(nested.ask(report, names="base").get_column(column))
    assert names - plain == {"compute:gemm", "elsewhere:relu"}
    assert plain - names == {"gemm", "relu"}


def test_gpu_trace(nested: Run) -> None:
    copy = nested.ask("cuda_gpu_trace").row(1, named=True)
    assert copy["Name"] == "[CUDA memcpy Host-to-Device]"
    assert (copy["SrcMemKd"], copy["DstMemKd"], copy["Device"]) == ("Pinned", "Device", "GPU (0)")
    assert copy["Bytes (MB)"] == 4.194304
    assert copy["Throughput (MB/s)"] == pytest.approx(4_194_304 / 400 * 1000)


def test_a_window_cuts_the_reports(nested: Run) -> None:
    part = nested.with_window("0ns..1us")  # from the first operation, at 620 ns
    assert part.ask("cuda_gpu_kern_sum").select("Name", "Instances").rows() == [("gemm(int)", 2)]


@pytest.fixture
def slow(tmp_path: Path) -> Run:
    """Pageable and blocking copies, waits, a long gap, and a profiler that takes its time."""
    e = Export()
    calls = (
        ("cudaMemcpyAsync_v3020", 1, 1 << 20, 0, 2),  # asynchronous from pageable memory
        ("cudaMemcpy_v3020", 1, 64_000, 0, 2),  # small enough to return at once
        ("cudaMemcpy_v3020", 1, 64_001, 0, 2),
        ("cudaMemcpy_v3020", 2, 8, 2, 0),
        ("cudaMemcpy_v3020", 8, 1 << 20, 2, 2),  # within the device
        ("cuMemcpyDtoHAsync_v2", 2, 8, 2, 1),  # asynchronous to pinned memory
    )
    for i, (name, kind, size, src, dst) in enumerate(calls):
        e.api(name, i * MS, i * MS + 10, i)
        e.copy(kind, i * MS + 20, i * MS + 100 + i, i, size, src, dst)
    for i, (name, kind) in enumerate(
        (("cudaMemset_v3020", 1), ("cudaMemset_v3020", 2), ("cudaMemsetAsync_v3020", 1)), start=10
    ):
        e.api(name, i * MS, i * MS + 10, i)
        e.fill(i * MS + 20, i * MS + 100, i, 64, kind)
    e.api("cudaDeviceSynchronize_v3020", 20 * MS, 21 * MS, 20)
    e.api("cudaStreamSynchronize_v3020", 22 * MS, 24 * MS, 21)
    e.api("cudaEventSynchronize_v3020", 25 * MS, 26 * MS, 22)
    e.api("cudaLaunchKernel_v7000", 1_000 * MS, 1_000 * MS + 10, 30)
    e.kernel("late(int)", 1_100 * MS, 1_200 * MS, 30)
    e.add("PROFILER_OVERHEAD", start=100 * MS, end=400 * MS, globalTid=gtid(7, 9))
    return opened(e, tmp_path)


def test_rules_on_copies(slow: Run) -> None:
    columns = ["Src Kind", "Dst Kind", "Bytes (MB)", "API Name"]
    assert slow.ask("cuda_memcpy_async").select(columns).rows() == [
        ("Pageable", "Device", 1.048576, "cudaMemcpyAsync_v3020")
    ]
    assert slow.ask("cuda_memcpy_sync").select(columns).rows() == [
        ("Device", "Pageable", 8e-06, "cudaMemcpy_v3020"),
        ("Pageable", "Device", 0.064001, "cudaMemcpy_v3020"),
    ]
    assert slow.ask("cuda_memset_sync").select("Memory Kind", "API Name").rows() == [
        ("Pinned", "cudaMemset_v3020")
    ]


def test_rule_on_waits(slow: Run) -> None:
    assert slow.ask("cuda_api_sync").rows() == [
        (2 * MS, 22 * MS, 7, 7, "cudaStreamSynchronize_v3020"),
        (1 * MS, 20 * MS, 7, 7, "cudaDeviceSynchronize_v3020"),
    ]
    assert slow.ask("cuda_api_sync", rows=1).height == 1


def test_rule_on_gaps(slow: Run) -> None:
    # 12 ms to 1100 ms without work, of which the profiler took 100 ms to 400 ms.
    assert slow.ask("gpu_gaps").rows() == [(700 * MS, 400 * MS, 7, 0, 1)]
    lower = slow.ask("gpu_gaps", gap_ms=80)
    assert lower.get_column("Duration (ns)").to_list() == [700 * MS, 88 * MS - 100]


def test_rule_on_utilisation(slow: Run) -> None:
    answer = slow.ask("gpu_time_util")
    (row,) = answer.iter_rows(named=True)
    # The last 100 of 1200 ms are busy: 27 parts of 40 ms are not, and half of the one after them.
    assert row["Start (ns)"] == 20
    assert 26 * 40 * MS < row["Duration (ns)"] < 28 * 40 * MS
    assert row["In-Use (%)"] < 1
    whole = slow.ask("gpu_time_util", threshold=101, chunks=1).row(0, named=True)
    assert whole["In-Use (%)"] == pytest.approx(
        100 * (100 * MS + sum(80 + i for i in range(6)) + 3 * 80) / (1_200 * MS - 20)
    )


def test_open_standards(tmp_path: Path) -> None:
    e = Export()
    for i in (1, 2):
        e.add(
            "CUPTI_ACTIVITY_KIND_OPENACC_OTHER",
            start=i * 10,
            end=i * 10 + i,
            nameId=e.text("Wait@main.c:3"),
            globalTid=gtid(7, 7),
        )
    e.add(
        "OPENMP_EVENT_KIND_PARALLEL",
        start=50,
        end=70,
        nameId=e.text("Parallel"),
        globalTid=gtid(7, 7),
    )
    run = opened(e, tmp_path)
    assert run.ask("openacc_sum").select("Total Time (ns)", "Count", "Name").rows() == [
        (3, 2, "Wait@main.c:3")
    ]
    assert run.ask("openmp_sum").select("Total Time (ns)", "Count", "Name").rows() == [
        (20, 1, "Parallel")
    ]
    with pytest.raises(sightline.MissingDataError, match="no annotated ranges"):
        run.ask("nvtx_sum")
