"""device-busy: what is said of a run that its kernels bind."""

from __future__ import annotations

from pathlib import Path

from support.rules import answers, assert_silent
from support.traces import call, kernel, opened, queued

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


def test_79_percent(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 0, 400), kernel("b", 610, 390)])
    assert_silent(run, RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
