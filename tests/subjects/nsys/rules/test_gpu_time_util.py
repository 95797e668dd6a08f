"""gpu-time-util: parts of the run with hardly any use, as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exports import opened, two_kernels
from support.rules import assert_silent, assert_speaks
from support.traces import call
from support.traces import opened as opened_trace
from synth_nsys import Export

RULE = "gpu-time-util"


def test_half_of_the_run_without_work(tmp_path: Path) -> None:
    """Idle in [600, 900) of 1,200 ms: seven of 30 parts of 40 ms are empty. The eighth, from
    880 on, is half in use, which is not less than half.
    """
    assert_speaks(
        opened(tmp_path, two_kernels((0, 600), (900, 1_200))),
        RULE,
        cost_ns=280_000_000,
        gain_ns=None,
        evidence=["280.0 ms", "in-use (%) 0.0"],
        fix="what the host did",
        severity="warning",
    )


@pytest.mark.parametrize(
    "export",
    [
        two_kernels((0, 600), (620, 1_200)),
    ],
    ids=["half of one part"],
)
def test_what_is_not_listed(tmp_path: Path, export: Export) -> None:
    assert_silent(opened(tmp_path, export), RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened_trace(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
