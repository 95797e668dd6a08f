"""cuda-memset-sync: memsets by calls that hold the host, as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exports import ON_DEVICE, PINNED, one_fill, opened
from support.rules import assert_silent, assert_speaks
from support.traces import call
from support.traces import opened as opened_trace
from synth_nsys import Export

RULE = "cuda-memset-sync"


def test_a_fill_of_100_ns(tmp_path: Path) -> None:
    """100 of 1,100 ns, 9.1 %."""
    assert_speaks(
        opened(tmp_path, one_fill("cudaMemset_v3020", PINNED)),
        RULE,
        cost_ns=100,
        gain_ns=None,
        evidence=["100 ns", "memory kind Pinned"],
        fix="cudaMemsetAsync",
        severity="warning",
    )


@pytest.mark.parametrize(
    "export",
    [
        one_fill("cudaMemsetAsync", PINNED),
        one_fill("cudaMemset", ON_DEVICE),
    ],
    ids=["asynchronous", "memory of the device"],
)
def test_what_is_not_listed(tmp_path: Path, export: Export) -> None:
    assert_silent(opened(tmp_path, export), RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened_trace(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
