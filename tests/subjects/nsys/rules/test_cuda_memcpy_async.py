"""cuda-memcpy-async: asynchronous copies from pageable memory, as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exports import DTOH, HTOD, ON_DEVICE, PAGEABLE, PINNED, one_copy, opened
from support.rules import assert_silent, assert_speaks
from support.traces import call
from support.traces import opened as opened_trace
from synth_nsys import Export

RULE = "cuda-memcpy-async"


def test_a_copy_of_100_ns(tmp_path: Path) -> None:
    """100 of 1,100 ns, 9.1 %."""
    assert_speaks(
        opened(tmp_path, one_copy("cudaMemcpyAsync_v3020", HTOD, 64, PAGEABLE, ON_DEVICE)),
        RULE,
        cost_ns=100,
        gain_ns=None,
        evidence=["100 ns", "src kind Pageable"],
        fix="pin the host memory",
        severity="warning",
    )


@pytest.mark.parametrize(
    "export",
    [
        one_copy("cudaMemcpyAsync", HTOD, 64, PINNED, ON_DEVICE),
        one_copy("cudaMemcpy", DTOH, 64, ON_DEVICE, PAGEABLE),
    ],
    ids=["pinned", "a synchronous call"],
)
def test_what_is_not_listed(tmp_path: Path, export: Export) -> None:
    assert_silent(opened(tmp_path, export), RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened_trace(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
