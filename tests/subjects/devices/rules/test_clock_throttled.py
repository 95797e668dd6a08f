"""clock-throttled: a clock below the device's best, for no reason of power or heat."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clocks import MS, ten_kernels
from support.rules import assert_abstains, assert_silent, assert_speaks
from support.traces import call, kernel, opened

RULE = "clock-throttled"


@pytest.mark.parametrize("bits", [None, 1])
def test_half_of_the_clock(tmp_path: Path, bits: int | None) -> None:
    """20 ms of kernels at 990 of 1,980 MHz would take 10."""
    assert_speaks(
        ten_kernels(tmp_path, 990, bits),
        RULE,
        cost_ns=10 * MS,
        gain_ns=10 * MS,
        evidence=["10 kernels at 990 MHz", "1980 MHz", "not recorded" if bits is None else "0x1"],
        fix="nvidia-smi -rgc",
        severity="critical",
        confidence="medium",
    )


@pytest.mark.parametrize("bits", [4, 64])
def test_reasons_that_are_another_rules(tmp_path: Path, bits: int) -> None:
    assert_silent(ten_kernels(tmp_path, 990, bits), RULE)


def test_from_95_percent_on_a_clock_is_not_low(tmp_path: Path) -> None:
    """1,881 of 1,980 MHz are 95 %; 1 MHz less costs each kernel of 2 ms 101,010 ns."""
    assert_silent(ten_kernels(tmp_path / "a", 1_881, 1), RULE)
    assert_speaks(
        ten_kernels(tmp_path / "b", 1_880, 1),
        RULE,
        cost_ns=1_010_100,
        gain_ns=1_010_100,
        evidence=["10 kernels at 1880 MHz"],
        fix="nvidia-smi -rgc",
    )


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)


def test_a_clock_that_is_low_from_the_first_sample_on_needs_the_devices_own(tmp_path: Path) -> None:
    assert_silent(ten_kernels(tmp_path, 990, best_hz=None), RULE)


def test_without_clocks_it_is_not_judged(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("k", 0, 100)])
    assert_abstains(run, RULE, "clocks were not recorded")
    assert_silent(run, "power-capped")
    assert_silent(run, "thermal")
