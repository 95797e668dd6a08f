"""cuda-api-sync: calls that hold the host until the device is done, as nsys analyze lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exports import one_wait, opened
from support.rules import assert_silent, assert_speaks
from support.traces import call
from support.traces import opened as opened_trace
from synth_nsys import Export

RULE = "cuda-api-sync"


def test_a_wait_of_40_ns(tmp_path: Path) -> None:
    """40 of 1,100 ns, 3.6 %: a note."""
    assert_speaks(
        opened(tmp_path, one_wait("cudaStreamSynchronize_v3020")),
        RULE,
        cost_ns=40,
        gain_ns=None,
        evidence=["40 ns  cudaStreamSynchronize_v3020"],
        fix="cudaStreamWaitEvent",
        severity="info",
    )


@pytest.mark.parametrize(
    "export",
    [one_wait("cudaEventSynchronize"), one_wait("cuCtxSynchronize")],
    ids=["a wait for an event", "a call of the driver"],
)
def test_what_is_not_listed(tmp_path: Path, export: Export) -> None:
    assert_silent(opened(tmp_path, export), RULE)


def test_a_recording_without_a_device(tmp_path: Path) -> None:
    assert_silent(opened_trace(tmp_path, [call("cudaMalloc", 0, 5)]), RULE)
