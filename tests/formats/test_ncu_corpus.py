"""Real reports of five GPUs and four tool versions, against the format note's check figures."""

from __future__ import annotations

import tracemalloc

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.formats.nvidia import ncu_rep
from sightline.formats.nvidia.ncu_rep.blocks import read_layout
from support.corpus import list_recordings, name_recording
from support.ncu_corpus import REPORTS, open_report
from support.processor_time import takes_at_most
from synth_ncu import naive_metrics

pytestmark = pytest.mark.corpus
every_report = pytest.mark.parametrize(
    "path", list_recordings("ncu/**/*.ncu-rep"), ids=name_recording
)


def value(run, metric: str, kernel: int = 0) -> float:
    return (
        run.table("kernel_metrics")
        .filter(pl.col("instance_id").is_null(), kernel_id=kernel, metric=metric)["value"]
        .item()
    )


@every_report
def test_read_to_the_last_byte(path):
    layout = read_layout(path.read_bytes())
    assert layout.version == 7
    assert layout.damage == []
    assert layout.read_to == path.stat().st_size
    found = ncu_rep.read(Source(path, str(path)), ImportOptions())
    assert {q.kind for q in found.quality} <= {"clocks_locked", "no_speed_of_light", "debug_build"}


@every_report
def test_every_metric_and_instance_as_a_second_reader_has_them(path):
    ours = (
        sightline.open(str(path))
        .table("kernel_metrics")
        .select("kernel_id", "metric", "instance_id", "instance_name", "value", "value_int", "text")
        .rows()
    )
    theirs = list(naive_metrics(path))
    assert len(ours) == len(theirs)
    for (kernel, metric, number, name, real, whole, text), (k, m, key, item) in zip(
        ours, theirs, strict=True
    ):
        assert (kernel, metric) == (k, m)
        assert (name if isinstance(key, str) else number) == key
        if isinstance(item, str) or item is None:
            assert text == item
        else:
            assert real == pytest.approx(item, rel=0, abs=0)
            assert whole == (item if isinstance(item, int) else None)


@pytest.mark.parametrize(
    ("name", "kernels", "first", "grid", "registers", "duration_ns"),
    [
        ("CuVectorAddDrv", 1, "VecAdd_kernel", 196, 16, 3_232),
        ("esmm", 12, "basic", 1024, 36, 10_776_992),
        ("prof1", 4, "distanceCalculationsKernel", 2048, 38, 1_129_093_408),
        ("cutlassTiles", 1, None, 329_567, 168, 8_761_410_432),
        ("manual_nvtx", 3, "init_data_kernel", 16_384, 16, 84_480),
        ("esmm_output", 4, "one_blocktiling", 256, 51, 431_648),
    ],
)
def test_check_figures(name, kernels, first, grid, registers, duration_ns):
    run = open_report(name)
    rows = run.table("profiled_kernels").to_dicts()
    assert len(rows) == kernels
    row = rows[0]
    assert first is None or row["function"] == first
    assert row["grid_x"] * row["grid_y"] * row["grid_z"] == grid
    assert (row["registers_per_thread"], row["duration_ns"]) == (registers, duration_ns)


def test_check_figures_of_the_matrix_product():
    run = open_report("cutlassTiles")
    throughput = value(run, "sm__throughput.avg.pct_of_peak_sustained_elapsed")
    assert round(throughput, 4) == 83.8598
    assert round(value(run, "sm__warps_active.avg.pct_of_peak_sustained_active"), 4) == 12.4999
    assert round(value(run, "dram__bytes.sum.per_second") / 1e9, 3) == 795.177


def test_totals_are_the_sums_of_their_instances():
    for name in ("cutlassTiles", "manual_nvtx", "prof1"):
        metrics = open_report(name).table("kernel_metrics")
        for metric in ("inst_executed", "smsp__pcsamp_sample_count", "thread_inst_executed_true"):
            rows = metrics.filter(metric=metric)
            whole = rows.filter(pl.col("instance_id").is_null())["value_int"].to_list()
            parts = (
                rows.filter(pl.col("instance_id").is_not_null())
                .group_by("kernel_id", maintain_order=True)
                .agg(pl.col("value_int").sum())
            )
            assert parts["value_int"].to_list() == whole


def test_samples_by_reason_sum_to_all_samples():
    for name in ("cutlassTiles", "manual_nvtx", "prof1"):
        run = open_report(name)
        ours = run.table("pc_samples").group_by("kernel_id").agg(pl.col("samples").sum())
        for kernel, samples in ours.rows():
            assert samples == value(run, "smsp__pcsamp_sample_count", kernel)


def test_opcodes_meet_the_counts_per_opcode():
    """Decoded from the binary, then summed: the profiler's own counts, to the instruction."""
    for name in ("cutlassTiles", "manual_nvtx", "prof1"):
        run = open_report(name)
        metrics = run.table("kernel_metrics")
        executed = metrics.filter(pl.col("instance_id").is_not_null(), metric="inst_executed")
        code = run.table("instructions").select("kernel_id", "address", "opcode")
        ours = (
            executed.join(
                code, left_on=["kernel_id", "instance_id"], right_on=["kernel_id", "address"]
            )
            .group_by("kernel_id", "opcode")
            .agg(pl.col("value_int").sum())
            .filter(pl.col("value_int") > 0)
        )
        counted = metrics.filter(
            pl.col("instance_name").is_not_null(), metric="sass__inst_executed_per_opcode"
        ).select("kernel_id", "instance_name", "value_int")
        assert sorted(ours.rows()) == sorted(counted.rows())


def test_lines_ranges_and_stacks():
    run = open_report("manual_nvtx")
    kernels = run.table("profiled_kernels")
    assert kernels["nvtx"].to_list() == [
        "run_test / init_data",
        "run_test / daxpy",
        "run_test / check_results",
    ]
    assert kernels["stack"].str.contains("cudaLaunchKernel").all()
    lines = run.table("instructions")
    assert lines["line"].null_count() == 0
    assert lines.filter(kernel_id=1)["line"].unique().sort().to_list() == [64, 66, 67, 69, 71]


def test_rule_results_with_their_source():
    rules = open_report("cutlassTiles").table("vendor_rules")
    assert rules["rule"].n_unique() == 16
    assert set(rules["source"]) == {"NVIDIA Nsight Compute 2022.2.0.0"}
    assert rules.filter(rule="SOLBottleneck")["title"].item() == "High Throughput"


def test_time_and_memory_are_bounded_by_the_file(corpus):
    path = corpus / REPORTS["cutlassTiles"]
    with takes_at_most(5):  # 0.3 s on the machine that this was written on
        ncu_rep.read(Source(path, "x"), ImportOptions())
    tracemalloc.start()
    ncu_rep.read(Source(path, "x"), ImportOptions())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * path.stat().st_size
