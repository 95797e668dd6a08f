"""host-optimizer and host-copies of a program whose device the profiler cannot record."""

from __future__ import annotations

from pathlib import Path

import sightline
from support.rules import answers, assert_silent
from support.traces import Event, call, host, op, opened


def train(first_us: int, read_us: int) -> list[Event]:
    """A step of 100 operators of 50 µs, the first of which takes longer, and a read behind it."""
    end = 10_000 + first_us
    return [
        host("user_annotation", "Optimizer.step#AdamW.step", 0, end),
        op("aten::addcdiv_", 100, first_us),
        *(op("aten::addcdiv_", 200 + first_us + 90 * n, 50) for n in range(99)),
        op("aten::item", end + 10, read_us + 10),
        op("aten::_local_scalar_dense", end + 15, read_us),
        op("aten::mm", end + read_us + 100, 10_000),
    ]


def test_a_first_call_is_none_of_the_many_small_operators(tmp_path: Path) -> None:
    """40 ms in one call of an operator that takes 50 µs as a rule."""
    (usual,) = answers(opened(tmp_path / "a", train(50, 5)), "host-optimizer")
    (found,) = answers(opened(tmp_path / "b", train(40_000, 5)), "host-optimizer")
    assert found.cost_ns is not None and usual.cost_ns is not None
    assert abs(found.cost_ns - usual.cost_ns) <= 100_000
    assert "40.00 ms in one call of aten::addcdiv_, which takes 50.00 µs" in found.evidence[-1]
    assert not any("not in it" in line for line in usual.evidence)


def test_a_long_read_of_one_value_is_a_wait(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", train(50, 15_000))
    (found,) = answers(run, "host-copies")
    assert found.title == "Copies and waits for a GPU that was not recorded"
    assert found.gain is None
    assert sightline.findings(run)[0].rule == "host-optimizer"
    assert_silent(opened(tmp_path / "b", train(50, 5)), "host-copies")


def test_small_operators_may_hide_behind_a_gpu_that_was_not_recorded(tmp_path: Path) -> None:
    calls = [op("aten::add", 40 * n, 8) for n in range(200)]
    (alone,) = answers(opened(tmp_path / "a", calls), "host-dispatch")
    assert alone.gain_ns
    launches = [call("cudaLaunchKernel", 40 * n + 2, 3) for n in range(200)]
    (found,) = answers(opened(tmp_path / "b", [*calls, *launches]), "host-dispatch")
    assert (found.severity, found.gain) == ("info", None)
    assert "a GPU that was not recorded" in found.evidence[-1]


def test_the_question_for_cudnn_is_no_use_of_a_gpu(tmp_path: Path) -> None:
    """PyTorch's recurrent layers ask aten::cudnn_is_acceptable on a CPU, too."""
    copies = [op("aten::copy_", 1_000 * n, 900) for n in range(20)]
    asks = op("aten::cudnn_is_acceptable", 950, 2)
    (found,) = answers(opened(tmp_path / "a", [*copies, asks]), "host-copies")
    assert found.title == "Copies on the CPU"
    runs = op("aten::_cudnn_rnn", 955, 20)
    (found,) = answers(opened(tmp_path / "b", [*copies, asks, runs]), "host-copies")
    assert found.title == "Copies and waits for a GPU that was not recorded"


def test_convolutions_on_the_slow_path(tmp_path: Path) -> None:
    """More than half of what computes is in PyTorch's fallback: other advice than faster cores."""
    usual = [op("aten::mkldnn_convolution", 1_000 * n, 990) for n in range(20)]
    slow = [op("aten::_slow_conv2d_forward", 1_000 * n, 990) for n in range(20)]
    (found,) = answers(opened(tmp_path / "a", slow), "host-busy")
    assert found.title == "Convolutions take PyTorch's fallback on the CPU"
    assert "aten::_slow_conv2d_forward" in found.evidence[0]
    assert "oneDNN" in (found.fix or "")
    (found,) = answers(opened(tmp_path / "b", usual), "host-busy")
    assert "oneDNN" not in (found.fix or "")
