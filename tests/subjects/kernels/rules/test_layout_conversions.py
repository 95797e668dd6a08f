"""layout-conversions: kernels that turn NCHW into NHWC, or back."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rules import assert_silent, assert_speaks
from support.traces import call, opened, queued

RULE, CONVERSION = "layout-conversions", "void cudnn::ops::nchwToNhwcKernel<float>"


MIOPEN = "batched_transpose_32x32_half.kd"


@pytest.mark.parametrize("name", [CONVERSION, "void cudnn::ops::nhwcToNchwKernel<float>", MIOPEN])
def test_400_of_1000_us(tmp_path: Path, name: str) -> None:
    assert_speaks(
        opened(tmp_path, queued(("conv", 300), (name, 400), ("conv", 300))),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["400.0 µs"],
        fix="channels_last",
        severity="critical",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    run = opened(tmp_path / "a", queued(("conv", 500), (CONVERSION, 49), ("conv", 451)))
    assert_silent(run, RULE)
    assert_speaks(
        opened(tmp_path / "b", queued(("conv", 500), (CONVERSION, 50), ("conv", 450))),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="channels_last",
    )


def test_nothing_to_look_at(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path / "a", queued(("conv", 500))), RULE)
    assert_silent(opened(tmp_path / "b", [call("cudaMalloc", 0, 5)]), RULE)
