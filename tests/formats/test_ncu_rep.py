"""Nsight Compute reports: what is in them arrives in the tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import sightline
from sightline.errors import DamagedError
from support.profiled import CODE as BASE
from support.profiled import with_code
from support.rules import answers, assert_abstains
from synth_ncu import A10, Kernel, report
from synth_ncu.report import rule


def opened(tmp_path, data: bytes, name: str = "r.ncu-rep", **options):
    path = tmp_path / name
    path.write_bytes(data)
    return sightline.open(str(path), **options)


def total(run, metric: str, kernel: int = 0):
    rows = run.table("kernel_metrics").filter(kernel_id=kernel, metric=metric)
    return rows.filter(rows["instance_id"].is_null() & rows["instance_name"].is_null())


def test_a_kernel_with_all_its_facts(tmp_path):
    k = Kernel(
        metrics={
            "gpu__time_duration.sum": 1234.0,
            "launch__registers_per_thread": 40.0,
            "launch__device_id": 0.0,
            "launch__shared_mem_per_block_static": 2048.0,
            "launch__shared_mem_per_block_driver": 1024.0,
            "launch__cluster_dim_x": 2,
            "profiler__replayer_passes": 9.0,
        },
        nvtx=("step", "forward"),
        stack=("cudaLaunchKernel", "main"),
    )
    run = opened(tmp_path, report([k, k]))
    rows = run.table("profiled_kernels").to_dicts()
    assert [r["occurrence"] for r in rows] == [0, 1]
    assert rows[0] | {
        "name": "scale(float *)", "function": "scale", "duration_ns": 1234, "grid_x": 160,
        "block_x": 256, "registers_per_thread": 40, "static_shared_bytes": 2048,
        "dynamic_shared_bytes": None, "driver_shared_bytes": 1024, "cluster_x": 2, "passes": 9,
        "nvtx": "step / forward", "stack": "cudaLaunchKernel;main", "clocks_locked": True,
        "device_id": 0, "stream_id": 7, "context_id": 1, "tid": 77, "api_call_id": 5,
    } == rows[0]  # fmt: skip
    device = run.table("devices").to_dicts()[0]
    assert (device["name"], device["sm_count"], device["compute_capability"]) == (
        "NVIDIA A10G",
        80,
        "8.6",
    )
    assert device["memory_bandwidth_bytes_per_s"] == 600_096_000_000
    assert run.table("recordings")["tool_version"].to_list() == ["2024.1.0.0"]


def test_values_keep_their_type_and_instances_their_key(tmp_path):
    metrics = {
        "whole": 2**60 + 1,
        "too_long": 2**64 - 1,
        "real": 0.5,
        "nan": float("nan"),
        "text": "cudaFuncCachePreferNone",
        "per_opcode": (7.0, {"HMMA": 4, "IMAD": 3}),
        "only_instances": (None, {BASE: 1, BASE + 16: 2}),
        "l1tex__t_bytes.sum.per_second": 1.0,
    }
    run = opened(tmp_path, report([Kernel(metrics=metrics)]))
    assert total(run, "whole")["value_int"].to_list() == [2**60 + 1]
    assert total(run, "too_long")["value_int"].to_list() == [None]
    assert total(run, "too_long")["value"].to_list() == [float(2**64 - 1)]
    assert total(run, "real").select("value", "value_int").row(0) == (0.5, None)
    assert total(run, "nan")["value"].to_list() == [None]
    assert total(run, "text")["text"].to_list() == ["cudaFuncCachePreferNone"]
    assert total(run, "l1tex__t_bytes.sum.per_second")["unit"].to_list() == ["bytes/s"]
    named = run.table("kernel_metrics").filter(metric="per_opcode")
    assert named.select("instance_name", "value_int").rows() == [
        (None, None),
        ("HMMA", 4),
        ("IMAD", 3),
    ]
    keyed = run.table("kernel_metrics").filter(metric="only_instances")
    assert keyed.select("instance_id", "value_int").rows() == [(BASE, 1), (BASE + 16, 2)]


def test_ranges_command_lists_and_graphs(tmp_path):
    kinds = ["kernel", "range", "command list", "graph"]
    kernels = [Kernel(kind=k, metrics={"gpu__time_duration.sum": 5.0}) for k in kinds]
    rows = opened(tmp_path, report(kernels)).table("profiled_kernels")
    assert rows["kind"].to_list() == kinds
    assert rows["name"].to_list() == ["scale(float *)", None, "list", None]
    assert rows["duration_ns"].to_list() == [5, 5, 5, 5]


def test_samples_meet_code_and_source(tmp_path):
    run = opened(tmp_path, with_code())
    instructions = run.table("instructions").select("offset", "opcode", "file", "line").rows()
    assert instructions == [
        (0, "LDG", "src/scale.cu", 10),
        (16, "FADD", "src/scale.cu", 12),
        (32, "STG", "src/scale.cu", 12),
        (48, "EXIT", "src/scale.cu", 12),
    ]
    columns = [
        "offset",
        "line",
        "reason",
        "stall_class",
        "samples",
        "latency_samples",
        "period_cycles",
    ]
    assert run.table("pc_samples").select(columns).rows() == [
        (16, 12, "long_scoreboard", "memory wait", 30, 20, 1024),
        (0, 10, "selected", "issuing", 3, None, 1024),
    ]
    assert run.table("source_files").select("file", "content").rows() == [
        ("scale.cu", "void scale() {}\n")
    ]


def test_opcodes_that_contradict_the_report_are_not_shown(tmp_path):
    """The report counts no LDG: then the encoding is not the one that is known."""
    counts = (400.0, {"FADD": 100, "STG": 100, "EXIT": 100, "NEW": 100})
    run = opened(tmp_path, with_code(sass__inst_executed_per_opcode=counts))
    assert run.table("instructions")["opcode"].null_count() == 4
    assert "unknown_encoding" in run.table("quality")["kind"].to_list()


def test_the_vendors_rules_keep_their_name(tmp_path):
    rules = (
        rule(
            "SOLBottleneck",
            "Bottleneck",
            "SpeedOfLight",
            "too small",
            title="Small Grid",
            focus=("launch__waves_per_multiprocessor", 0.4),
            speedup=60.0,
            type=4,
        ),
        rule("PCSamplingData", "PC sampling data", "SourceCounters"),
    )
    rows = opened(tmp_path, report([Kernel(rules=rules)])).table("vendor_rules").to_dicts()
    assert rows[0]["source"] == "NVIDIA Nsight Compute 2024.1.0.0"
    assert (rows[0]["rule"], rows[0]["text"], rows[0]["severity"]) == (
        "SOLBottleneck",
        "too small",
        "optimization",
    )
    assert (rows[0]["speedup_type"], rows[0]["speedup_pct"]) == ("global", 60.0)
    assert json.loads(rows[0]["focus"])[0]["MetricName"] == "launch__waves_per_multiprocessor"
    assert (rows[1]["rule"], rows[1]["text"], rows[1]["severity"]) == ("PCSamplingData", None, None)


def test_host_and_environment_stay_out(tmp_path):
    data = report([Kernel(metrics={"gpu__time_duration.sum": 1.0})])
    run = opened(tmp_path, data)
    assert run.table("recordings")["host"].to_list() == [None]
    assert "secret" not in json.dumps([run.table(t).to_dicts() for t in run.present()], default=str)
    kept = opened(tmp_path, data, keep_identity=True)
    assert kept.table("recordings")["host"].to_list() == ["secret-host"]


def test_unknown_fields_of_newer_tools_are_skipped(tmp_path):
    extra = ((99, 5), (100, "new"), (101, 1.5))
    run = opened(tmp_path, report([Kernel(metrics={"gpu__time_duration.sum": 3.0})], extra=extra))
    assert run.table("profiled_kernels")["duration_ns"].to_list() == [3]


def test_a_gzipped_report_is_read(tmp_path):
    data = gzip.compress(report([Kernel(metrics={"gpu__time_duration.sum": 3.0})]))
    assert opened(tmp_path, data, "r.ncu-rep.gz").rows("profiled_kernels") == 1


def test_a_report_without_kernels_says_so(tmp_path):
    run = opened(tmp_path, report([], device=A10))
    assert "no_kernels" in run.table("quality")["kind"].to_list()


def test_only_the_magic_is_damage(tmp_path):
    with pytest.raises(DamagedError, match="file header"):
        opened(tmp_path, b"NVR\0\xff\xff\xff\xff")


LAUNCHED = {
    "gpu__time_duration.sum": 1000.0,
    "launch__grid_size": 8.0,
    "launch__registers_per_thread": 32.0,
}


@pytest.mark.parametrize(
    ("device", "stated"),
    [
        (None, {"launch__sm_count": 80.0}),
        (None, {"device__attribute_multiprocessor_count": 80}),
        ({"display_name": "NVIDIA A10G"}, {}),
    ],
    ids=["launch", "attribute of the kernel", "the table of GPUs, by name"],
)
def test_sms_of_a_report_that_was_cut_from_its_session(tmp_path, device, stated):
    """8 blocks of 256 threads on 80 SMs, wherever their number is from."""
    kernel = Kernel(grid=(8, 1, 1), metrics=LAUNCHED | stated)
    run = opened(tmp_path, report([kernel], device=device))
    (found,) = answers(run, "ncu-small-grid")
    assert "8 blocks of 256 threads on 80 SMs" in found.summary


def test_sms_that_nobody_states(tmp_path):
    run = opened(tmp_path, report([Kernel(grid=(8, 1, 1), metrics=LAUNCHED)], device=None))
    for name in ("ncu-small-grid", "ncu-tail-effect"):
        assert_abstains(run, name, "does not say how many SMs it has")


def test_metrics_of_pascal_by_their_older_names(tmp_path: Path) -> None:
    """Nsight Compute until 2019.5: what it could not count is no number, and stays unknown."""
    older = {
        "gpu__time_duration": 159_000.0,
        "sm__sol_pct": float("nan"),
        "gpu__compute_memory_sol_pct": 3.08,
        "sm__active_warps_avg_per_active_cycle_pct": 3.12,
        "smsp__warp_cycles_per_issue_stall_no_instructions": 3.09,
    }
    run = opened(tmp_path, report([Kernel(metrics=older)]))
    assert run.table("profiled_kernels")["duration_ns"].to_list() == [159_000]
    named = dict(run.table("kernel_metrics").select("metric", "value").rows())
    assert named["gpu__compute_memory_sol_pct"] == 3.08  # as the report has it, too
    assert named["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"] == 3.08
    assert named["sm__warps_active.avg.pct_of_peak_sustained_active"] == 3.12
    assert named["smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio"] == 3.09
    assert "sm__throughput.avg.pct_of_peak_sustained_elapsed" not in named


@pytest.mark.parametrize(
    ("grid", "count", "blocks"),
    [
        ((640, 320, 1), 200.0, (20, 10, 1)),  # in threads
        ((20, 10, 1), 200.0, (20, 10, 1)),
        ((640, 320, 1), 7.0, (640, 320, 1)),  # neither: as it is written
        ((640, 320, 1), None, (640, 320, 1)),
    ],
)
def test_a_grid_that_is_written_in_threads(
    tmp_path: Path, grid: tuple[int, int, int], count: float | None, blocks: tuple[int, int, int]
) -> None:
    metrics = {} if count is None else {"launch__grid_size": count}
    kernel = Kernel(grid=grid, block=(32, 32, 1), metrics=metrics)
    rows = opened(tmp_path, report([kernel])).table("profiled_kernels")
    assert rows.select("grid_x", "grid_y", "grid_z").row(0) == blocks
