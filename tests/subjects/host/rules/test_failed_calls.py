"""failed-calls: calls that returned an error."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from support import exports
from support.rules import answers, assert_silent
from synth_nsys import Export

RULE = "failed-calls"
US = 1_000


def calling(folder: Path, *calls: tuple[str, int]) -> Run:
    """Calls of 10 µs in turn, by name and by what they return."""
    export = Export()
    for n, (name, returned) in enumerate(calls):
        export.api(name, 20 * n * US, (20 * n + 10) * US, 0, returnValue=returned)
    return exports.opened(folder, export)


def test_every_launch_fails(tmp_path: Path) -> None:
    run = calling(tmp_path, ("cudaMalloc", 0), *[("cudaLaunchKernel_v7000", 222)] * 3)
    (found,) = answers(run, RULE)
    assert "3 calls failed, the first of them cudaLaunchKernel_v7000 with 222" in found.summary
    assert found.evidence == (
        "3 × cudaLaunchKernel_v7000: 222 (PTX of a newer toolchain than the driver's)",
    )
    assert found.fix.startswith("build for this GPU (nvcc -arch=native) or update the driver")
    assert found.is_asked and found.gain is None
    assert sightline.findings(run)[0].rule == RULE


def test_an_illegal_address_loses_the_context(tmp_path: Path) -> None:
    calls = [("cudaMemPrefetchAsync", 1), ("cudaLaunchKernel", 0), ("cudaDeviceSynchronize", 700)]
    run = calling(tmp_path, *calls)
    (found,) = answers(run, RULE)
    assert found.evidence == (
        "1 × cudaMemPrefetchAsync: 1 (invalid value)",
        "1 × cudaDeviceSynchronize: 700 (illegal address)",
    )
    assert found.is_asked
    (why,) = run.table("quality").filter(pl.col("kind") == "no_device_ops").to_dicts()
    assert "cudaDeviceSynchronize returned 700 (illegal address)" in why["text"]
    assert "Fix that first" in why["remedy"]


def test_one_refused_allocation_is_said_but_not_first(tmp_path: Path) -> None:
    (found,) = answers(calling(tmp_path, ("cudaMalloc", 2), ("cudaLaunchKernel", 0)), RULE)
    assert "2 (out of memory)" in found.summary
    assert not found.is_asked


@pytest.mark.parametrize(
    "call",
    [
        ("cudaStreamQuery", 600),
        ("cudaEventSynchronize", 600),
        ("cuGetProcAddress", 500),
        ("cuPointerGetAttribute", 1),
        ("cuCtxSynchronize", 709),
        ("cudaFree", 4),
    ],
)
def test_what_a_program_expects(tmp_path: Path, call: tuple[str, int]) -> None:
    assert_silent(calling(tmp_path, ("cudaLaunchKernel", 0), call), RULE)


def test_a_free_of_what_is_no_pointer_is_a_remark(tmp_path: Path) -> None:
    """What ran does not depend on it; a free that finds an illegal address tells of a kernel."""
    calls = [("cudaLaunchKernel", 0), ("cudaFree_v3020", 1), ("cudaFree_v3020", 17)]
    (found,) = answers(calling(tmp_path, *calls), RULE)
    assert (found.title, found.severity) == ("Freed pointers that are not GPU memory", "info")
    assert not found.states_limit
    (found,) = answers(calling(tmp_path / "b", *calls, ("cudaFree_v3020", 700)), RULE)
    assert found.title == "Calls failed"


@pytest.mark.parametrize("timed", [True, False])
def test_shapes_that_a_tuner_tries(tmp_path: Path, timed: bool) -> None:
    """A twentieth of the launches do not fit, each with events around it, or without."""
    ask = "cudaEventRecord" if timed else "cudaMemcpyAsync"
    trial = [(ask, 0), ("cudaLaunchKernel", 701), (ask, 0), ("cudaEventSynchronize", 0)]
    run = calling(tmp_path, *[("cudaLaunchKernel", 0)] * 95, *trial * 5)
    (found,) = answers(run, RULE)
    assert (found.severity == "info") == timed
    assert ("keep what it found between runs" in (found.fix or "")) == timed
    assert found.is_asked == (not timed)
