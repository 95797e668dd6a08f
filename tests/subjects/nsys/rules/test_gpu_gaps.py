"""gpu-gaps: stretches of over 500 ms without work, as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exports import opened, two_kernels
from support.rules import assert_silent, assert_speaks
from support.traces import call
from support.traces import opened as opened_trace
from synth_nsys import Export

RULE = "gpu-gaps"


def test_600_ms_without_work(tmp_path: Path) -> None:
    """Idle in [100, 700) of 1,000 ms."""
    assert_speaks(
        opened(tmp_path, two_kernels((0, 100), (700, 1_000))),
        RULE,
        cost_ns=600_000_000,
        gain_ns=None,
        evidence=["600.0 ms", "device id 0"],
        fix="what the host did",
        severity="critical",
    )


@pytest.mark.parametrize(
    "export",
    [
        two_kernels((0, 100), (600, 1_000)),
    ],
    ids=["500 ms"],
)
def test_what_is_not_listed(tmp_path: Path, export: Export) -> None:
    assert_silent(opened(tmp_path, export), RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened_trace(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
