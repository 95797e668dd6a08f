"""device-busy: what is said of a run that its kernels bind."""

from __future__ import annotations

from pathlib import Path

from support.rules import answers, assert_silent
from support.traces import call, computed, kernel, opened, queued, told

RULE = "device-busy"


def test_all_of_the_window(tmp_path: Path) -> None:
    (found,) = answers(opened(tmp_path, queued(("gemm", 600), ("norm", 300), ("gemm", 100))), RULE)
    assert (found.severity, found.states_limit, found.gain_ns) == ("info", True, None)
    assert "100.0 % of the window" in found.summary
    assert found.evidence[0] == "70.0 %  2 × gemm, 700.0 µs"
    assert "gemm takes 70.0 % of the kernel time" in found.summary
    assert found.where["kernel"] == "gemm"


def test_kernels_have_their_short_names(tmp_path: Path) -> None:
    gelu = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl("
        "at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int, float)"
    )
    (found,) = answers(opened(tmp_path, queued((gelu, 1000))), RULE)
    assert found.evidence == (
        "100.0 %  1 × vectorized_elementwise_kernel<GeluCUDAKernelImpl>, 1.000 ms",
    )
    assert found.where["kernel"] == gelu


def test_how_near_operators_are_to_their_roofs(tmp_path: Path) -> None:
    """On an A100, 31.2 GFLOP are 100 of 500 µs, and 203.9 MB are 100 of 200 µs."""
    events = [
        computed("aten::mm", 0, kernel("gemm", 100, 500), **told([2600, 3000], [3000, 2000])),
        computed("aten::relu", 20, kernel("relu", 600, 200), **told([50_975_000])),
        computed("aten::unheard_of", 40, kernel("other", 800, 200)),
    ]
    gpu = {"id": 0, "name": "NVIDIA A100-SXM4-80GB"}
    (found,) = answers(opened(tmp_path, events, deviceProperties=[gpu]), RULE)
    assert found.evidence[-1] == (
        "operators of known shapes (77.8 % of the kernel time) run at 28.6 % of their roofs; "
        "80.0 % of the gap is gemm  (sightline stats gap_to_peak)"
    )


def test_79_percent(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 0, 400), kernel("b", 610, 390)])
    assert_silent(run, RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
