"""no-tensor-cores: fp32 matrix products on a device whose TF32 rate is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_abstains, assert_silent, assert_speaks
from support.traces import call, computed, kernel, launched, opened, queued, told

RULE, PLAIN = "no-tensor-cores", "ampere_sgemm_128x64_tn"
A100 = "NVIDIA A100-SXM4-80GB"


def products(folder: Path, length: int, name: str = PLAIN, device: str | None = A100) -> Run:
    """A window of 1,000 µs: kernel, product of `length`, kernel."""
    header = {} if device is None else {"deviceProperties": [{"id": 0, "name": device}]}
    work = queued(("a", 500 - length // 2), (name, length), ("b", 500 - (length + 1) // 2))
    return opened(folder, work, **header)


def test_800_us_that_an_a100_could_do_in_an_eighth(tmp_path: Path) -> None:
    """156 against 19.5 TFLOP/s: at the peak, which few products reach, 100 of 800 µs are left."""
    found = assert_speaks(
        products(tmp_path, 800),
        RULE,
        cost_ns=700_000,
        gain_ns=700_000,
        evidence=["1 × ampere_sgemm_128x64_tn, 800.0 µs"],
        fix="set_float32_matmul_precision",
        severity="critical",
        confidence="low",
    )
    assert (found.method or "").startswith("bound")


def test_a_product_of_known_shape_is_no_faster_than_its_bytes(tmp_path: Path) -> None:
    """Two rows times 7,136 × 14,286 weights: 407.8 MB with both rows, 200 of 800 µs at 2.039 TB/s,
    where an eighth would be 100."""
    shapes = told([2, 7136], [7136, 14286], dtype="float")
    events = [
        computed("aten::relu", 0, kernel("a", 100, 100)),
        computed("aten::mm", 20, kernel(PLAIN, 200, 800), **shapes),
        computed("aten::relu", 40, kernel("b", 1000, 100)),
    ]
    run = opened(tmp_path, events, deviceProperties=[{"id": 0, "name": A100}])
    (found,) = answers(run, RULE)
    moved = 4 * (2 * 7136 + 7136 * 14286 + 2 * 14286)
    assert found.cost_ns == pytest.approx(800_000 - moved / 2.039e3, abs=1)


@pytest.mark.parametrize(
    ("name", "blocks", "is_large"),
    [(PLAIN, 640, True), (PLAIN, 40, False), ("ampere_sgemm_32x32_sliced1x4_tn", 640, False)],
    ids=["tiles for all", "40 of 108 busy", "small tiles"],
)
def test_large_products_of_unknown_shape_are_surer(
    tmp_path: Path, name: str, blocks: int, *, is_large: bool
) -> None:
    work = queued((name, 800), grid=[blocks, 1, 1], block=[128, 1, 1])
    run = opened(tmp_path, work, deviceProperties=[{"id": 0, "name": A100, "numSms": 108}])
    (found,) = answers(run, RULE)
    assert found.confidence == ("medium" if is_large else "low")


@pytest.mark.parametrize(
    "name",
    [
        "volta_scudnn_128x64_relu_small_nn_v1",
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)",
        "volta_sgemm_128x64_nt",
    ],
)
def test_a_v100_has_tensor_cores_for_fp16_alone(tmp_path: Path, name: str) -> None:
    """125 against 15.7 TFLOP/s."""
    (found,) = answers(products(tmp_path, 800, name, "Tesla V100-SXM2-16GB"), RULE)
    assert found.cost_ns == pytest.approx(800_000 * (1 - 15.7 / 125), abs=1)
    assert "float16" in (found.fix or "")


def test_a_gpu_for_games_gains_nothing_by_tf32(tmp_path: Path) -> None:
    """Its datasheet has 82.6 TFLOP/s in fp32 and in TF32, and 165.2 in bf16."""
    (found,) = answers(products(tmp_path, 800, device="NVIDIA GeForce RTX 4090"), RULE)
    assert found.gain_ns == pytest.approx(400_000, rel=0.01)
    assert "bfloat16" in (found.fix or "")
    assert "high" not in (found.fix or "")


def test_a_gpu_by_its_compute_capability(tmp_path: Path) -> None:
    """An MX570 is in no table; 8.6 runs bf16 at twice the rate of fp32, at least."""
    header = {"id": 0, "name": "NVIDIA GeForce MX570", "computeMajor": 8, "computeMinor": 6}
    run = opened(tmp_path, queued(("a", 100), (PLAIN, 800)), deviceProperties=[header])
    (found,) = answers(run, RULE)
    assert found.gain_ns == 400_000


def test_a_gpu_without_tensor_cores(tmp_path: Path) -> None:
    header = {"id": 0, "name": "NVIDIA GeForce GTX 1080", "computeMajor": 6, "computeMinor": 1}
    run = opened(tmp_path, queued((PLAIN, 800)), deviceProperties=[header])
    assert_silent(run, RULE)


@pytest.mark.parametrize(("length", "count"), [(40, 1), (4, 0)], ids=["much of it", "little"])
def test_a_note_where_the_host_limits(tmp_path: Path, length: int, count: int) -> None:
    """The GPU is idle nine tenths of the time, so faster products shorten nothing today."""
    work = [launched(500 * i + 100, kernel(PLAIN, 500 * i + 110, length)) for i in range(20)]
    rest = [launched(500 * i + 300, kernel("step", 500 * i + 310, 20)) for i in range(20)]
    run = opened(tmp_path, [*work, *rest], deviceProperties=[{"id": 0, "name": A100}])
    found = answers(run, RULE)
    assert [(f.severity, f.is_remark) for f in found] == [("info", True)] * count
    if found:
        assert "66.7 % of the kernel time" in found[0].summary


@pytest.mark.parametrize("name", ["ampere_tf32_s1688gemm_128x64_tn", "cutlass_tensorop_sgemm"])
def test_kernels_that_use_them(tmp_path: Path, name: str) -> None:
    assert_silent(products(tmp_path, 800, name), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """Seven eighths of 57 µs are 49.9, of 58 are 50.75."""
    assert_silent(products(tmp_path / "a", 57), RULE)
    assert_speaks(
        products(tmp_path / "b", 58),
        RULE,
        cost_ns=50_750,
        gain_ns=50_750,
        evidence=["58.00 µs"],
        fix="set_float32_matmul_precision",
    )


@pytest.mark.parametrize("device", [None, "Some Other Device"])
def test_a_device_of_unknown_rate_is_not_judged(tmp_path: Path, device: str | None) -> None:
    run = products(tmp_path, 800, device=device)
    assert_abstains(run, RULE, "tensor-core rate is not known")


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
