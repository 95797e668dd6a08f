"""operator_efficiency: operators under their roofs, on an A100 of 312 TFLOP/s and 2.039 TB/s."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traces import computed, kernel, launched, op, opened, told

A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}


def test_a_product_that_compute_bounds(tmp_path: Path) -> None:
    """2 × 2,600 × 2,000 × 3,000 are 31.2 GFLOP: 100 µs at the peak. Two calls take 125 and 175."""
    product = told([2600, 3000], [3000, 2000])
    events = [
        computed("aten::mm", 0, kernel("gemm", 100, 125), **product),
        computed("aten::mm", 20, kernel("gemm", 225, 175), **product),
    ]
    moved = 2 * (2600 * 3000 + 3000 * 2000 + 2600 * 2000)
    (row,) = opened(tmp_path, events, **A100).ask("operator_efficiency").to_dicts()
    assert row == {
        "rank": 0,
        "device_id": 0,
        "operator": "aten::mm",
        "kind": "gemm",
        "dims": "m=2600 n=2000 k=3000",
        "dtype": "c10::BFloat16",
        "instances": 2,
        "kernel_ns": 300_000,
        "flop": 31_200_000_000,
        "moved_bytes": moved,
        "flop_per_byte": pytest.approx(31.2e9 / moved),
        "flop_per_s": pytest.approx(208e12),
        "bytes_per_s": pytest.approx(moved / 150e-6),
        "pipe": "bf16_tensor",
        "peak_flop_per_s": 312e12,
        "peak_bytes_per_s": 2.039e12,
        "bound": "compute",
        "roof_ns": 200_000,
        "of_roof_pct": pytest.approx(200 / 3),
        "gap_ns": 100_000,
        "shapes": "[[2600,3000],[3000,2000]]",
    }


def test_an_elementwise_operator_that_memory_bounds(tmp_path: Path) -> None:
    """Two tensors of 101.95 MB are 203.9 MB: 100 µs at the memory's rate."""
    events = [computed("aten::relu", 0, kernel("k", 100, 160), **told([50_975_000]))]
    (row,) = opened(tmp_path, events, **A100).ask("operator_efficiency").to_dicts()
    assert (row["kind"], row["bound"], row["flop"], row["pipe"]) == (
        "elementwise",
        "memory",
        None,
        None,
    )
    assert (row["roof_ns"], row["gap_ns"], row["of_roof_pct"]) == (100_000, 60_000, 62.5)


def test_of_operators_in_one_another_the_outermost_counts(tmp_path: Path) -> None:
    outer = told([4, 8], [], [8], [8])
    events = [
        op("aten::layer_norm", 0, 50, **outer),
        op("aten::native_layer_norm", 1, 40, **outer),
        launched(2, kernel("k", 100, 10)),
    ]
    rows = opened(tmp_path, events, **A100).ask("operator_efficiency")
    assert rows.get_column("operator").to_list() == ["aten::layer_norm"]


@pytest.mark.parametrize(
    ("name", "pipe", "peak"),
    [("ampere_sgemm_128x64_tn", "fp32", 19.5e12), ("a_s1688gemm_tf32", "tf32_tensor", 156e12)],
)
def test_fp32_counts_against_the_pipe_that_ran(
    tmp_path: Path, name: str, pipe: str, peak: float
) -> None:
    product = told([64, 64], [64, 64], dtype="float")
    run = opened(tmp_path, [computed("aten::mm", 0, kernel(name, 100, 10), **product)], **A100)
    (row,) = run.ask("operator_efficiency").to_dicts()
    assert (row["pipe"], row["peak_flop_per_s"]) == (pipe, peak)


def test_an_unknown_gpu_has_no_roof(tmp_path: Path) -> None:
    product = told([64, 64], [64, 64])
    run = opened(tmp_path, [computed("aten::mm", 0, kernel("gemm", 100, 10), **product)])
    (row,) = run.ask("operator_efficiency").to_dicts()
    assert (row["flop"], row["roof_ns"], row["gap_ns"], row["bound"]) == (524_288, None, None, None)


def test_no_shapes_no_rows(tmp_path: Path) -> None:
    run = opened(tmp_path, [computed("aten::mm", 0, kernel("gemm", 100, 10))], **A100)
    assert run.ask("operator_efficiency").is_empty()
