"""Arithmetic, ceilings and placement, on kernels whose answer is known by construction."""

from __future__ import annotations

import pytest

from sightline.roofline.facts import Facts
from sightline.roofline.flops import count_work
from sightline.roofline.peaks import find_compute_peak, find_memory_peak
from sightline.roofline.placement import place_kernel

A100 = {
    "name": "NVIDIA A100-SXM4-40GB",
    "vendor": "nvidia",
    "compute_capability": "8.0",
    "sm_count": 108,
    "max_clock_hz": 1_410_000_000,
    "memory_bytes": 42_481_549_312,
    "memory_bandwidth_bytes_per_s": 1_555_200_000_000,
}
H100 = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "sm_count": 132}
SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
PATH = "sm__ops_path_tensor_src_"


def kernel(metrics, device=A100, opcodes=None, threads=None, ns=1000):
    return Facts(
        {"duration_ns": ns},
        {"gpu__time_duration.sum": float(ns), **metrics},
        device,
        opcodes or {},
        threads or {},
    )


def flop(facts: Facts) -> dict[str, float]:
    return {w.precision: w.flop for w in count_work(facts)}


def test_an_fma_counts_twice_and_packed_ones_for_all_their_values():
    counts = {"fadd": 1, "fmul": 10, "ffma": 100, "fadd2": 1e3, "fmul2": 1e4, "ffma2": 1e5}
    found = flop(kernel({SASS.format(op): float(n) for op, n in counts.items()}))
    assert found == {"fp32": 1 + 10 + 200 + 2e3 + 2e4 + 4e5}
    assert flop(kernel({SASS.format("hfma"): 1.0})) == {"fp16": 4}
    assert flop(kernel({SASS.format("qfma4"): 1.0})) == {"fp8": 8}


def test_rates_per_cycle_serve_as_well():
    metrics = {
        f"{SASS.format('ffma')}.per_cycle_elapsed": 100.0,
        "smsp__cycles_elapsed.avg.per_second": 1e9,
    }
    found = count_work(kernel(metrics, ns=2000))[0]
    assert (found.per_s, found.flop) == (2e11, pytest.approx(4e5))


def test_op_path_counters_are_the_operations_themselves():
    """FP8 4096³: 2MNK, and neither its parts nor the sparse half is counted twice."""
    whole = 2.0 * 4096**3
    parts = {f"{PATH}fp8_dst_fp16.sum": 0.0, f"{PATH}fp8_dst_fp32.sum": whole}
    assert flop(kernel(parts, H100)) == {"fp8_tensor": whole}
    assert flop(kernel({**parts, f"{PATH}fp8.sum": whole}, H100)) == {"fp8_tensor": whole}
    split = {
        f"{PATH}fp8_dst_fp32_sparsity_off.sum": whole,
        f"{PATH}fp8_dst_fp32_sparsity_on.sum": 5.0,
    }
    assert flop(kernel(split, H100)) == {"fp8_tensor": whole + 5}
    assert flop(kernel({**parts, **split}, H100)) == {"fp8_tensor": whole}


@pytest.mark.parametrize(
    ("opcode", "precision", "each"),
    [
        ("HMMA.16816.F16", "fp16_tensor", 4096),
        ("HMMA.16816.F32.BF16", "bf16_tensor", 4096),
        ("HMMA.1688.F32.TF32", "tf32_tensor", 2048),
        ("DMMA.884", "fp64_tensor", 512),
        ("IMMA.16832.S8.S8", "int8_tensor", 8192),
        ("QMMA.16832.F32.E4M3.E4M3", "fp8_tensor", 8192),
        ("HGMMA.64x128x16.F32", "fp16_tensor", 2 * 16 * 128 * 16),
        ("QGMMA.64x256x32.F32.E4M3.E4M3", "fp8_tensor", 2 * 16 * 256 * 32),
    ],
)
def test_matrix_instructions_count_by_their_shape(opcode, precision, each):
    assert flop(kernel({}, opcodes={opcode: 10.0, "IMAD": 5.0})) == {precision: 10.0 * each}


def test_times_512_is_for_volta_alone():
    metrics = {"sm__inst_executed_pipe_tensor.sum": 10.0}
    volta = {"name": "Tesla V100-SXM2-16GB", "compute_capability": "7.0"}
    assert flop(kernel(metrics, volta)) == {"fp16_tensor": 5120}
    assert flop(kernel(metrics)) == {}


def test_counters_are_trusted_before_attributes_before_the_table():
    clock = {"sm__cycles_elapsed.avg.per_second": 1e9}
    counter = {"sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 6912.0}
    best = find_compute_peak(kernel({**clock, **counter}), "fp32")
    assert (best.measured, best.source, best.datasheet) == (2 * 6912e9, "counters", 19.5e12)
    by_device = find_compute_peak(kernel(clock), "bf16_tensor")
    assert (by_device.measured, by_device.source) == (108 * 2048e9, "device attributes")
    assert by_device.achievable == 267.9e12
    by_table = find_compute_peak(kernel({}), "bf16_tensor")
    assert (by_table.best, by_table.source) == (312e12, "table")
    assert find_compute_peak(kernel(clock, {"name": "Unknown"}), "fp32").best is None


def test_a_clock_is_measured_by_cycles_over_time_too():
    facts = kernel({"gpc__cycles_elapsed.max": 863_756_406.0}, ns=1_129_093_408)
    assert facts.sm_clock == pytest.approx(765e6, rel=1e-4)


def test_memory_ceilings():
    metrics = {"dram__bytes.sum.peak_sustained": 1280.0, "dram__cycles_elapsed.avg.per_second": 1e9}
    peak = find_memory_peak(kernel(metrics), "dram")
    assert (peak.measured, peak.datasheet, peak.source) == (1.28e12, 1.555e12, "counters")
    assert find_memory_peak(kernel({}), "dram").source == "device attributes"
    assert find_memory_peak(kernel({}, {"name": "NVIDIA A40"}), "dram").source == "table"


@pytest.mark.parametrize(
    ("ffma", "bytes_per_s", "roof", "bound"),
    [
        (6e6, 1.2e12, "dram", "memory"),  # 10 FLOP/byte: 12 of 12.8 TFLOP/s that DRAM can feed
        (6e6, 1e11, "compute", "compute"),  # 120 FLOP/byte: 12 of 13.8 TFLOP/s
        (6e5, 1e11, "compute", "latency"),  # 12 FLOP/byte, and far from both
    ],
)
def test_the_lowest_roof_and_the_distance_to_it(ffma, bytes_per_s, roof, bound):
    metrics = {
        SASS.format("ffma"): ffma,
        "dram__bytes.sum.per_second": bytes_per_s,
        "sm__cycles_elapsed.avg.per_second": 1e9,
        "dram__cycles_elapsed.avg.per_second": 1e9,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 6912.0,
        "dram__bytes.sum.peak_sustained": 1280.0,
    }
    found = place_kernel(kernel(metrics))[0]
    rate = 2 * ffma / 1e-6
    height = min(13.824e12, 1.28e12 * rate / bytes_per_s)
    assert found.ceiling == (roof, pytest.approx(height))
    assert found.of_ceiling_pct == pytest.approx(100 * rate / height)
    assert found.bound[0] == bound


def test_without_traffic_nothing_is_said_of_latency():
    metrics = {SASS.format("ffma"): 10.0, "sm__cycles_elapsed.avg.per_second": 1e9}
    bound, evidence = place_kernel(kernel(metrics))[0].bound
    assert bound is None
    assert "not recorded" in evidence
