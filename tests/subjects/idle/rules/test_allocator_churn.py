"""allocator-churn: cudaMalloc between two kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import call, kernel, launched, opened


def test_an_allocation_between_two_kernels(tmp_path: Path) -> None:
    """The device is idle in [110, 940); cudaMalloc takes 800 of these 830 µs.

    Free of cost, it is called at 120 and returns; the launch follows 10 µs later, and the kernel
    10 µs after that, at 140 instead of 940.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaMalloc", 120, 800),
            launched(930, kernel("b", 940, 60)),
            call("cudaMalloc", 2_000, 9_000),  # behind the window: none of it
        ],
    )
    assert_speaks(
        run,
        "allocator-churn",
        cost_ns=830_000,
        gain_ns=800_000,
        evidence=["1 gap of 830.0 µs", "1 × cudaMalloc, 800.0 µs"],
        fix="expandable_segments:True",
        severity="critical",
    )


def test_two_calls_that_set_something_up_are_no_churn(tmp_path: Path) -> None:
    """Of 401 ms in calls 400 are in two of 200 ms: the first use of the GPU."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaFree", 120, 200_000),
            call("cudaFree", 200_130, 200_000),
            call("cudaMalloc", 400_140, 1_000),
            launched(401_150, kernel("b", 401_160, 60)),
        ],
    )
    (found,) = answers(run, "allocator-churn")
    assert found.title.startswith("Set-up")
    assert "2 calls of over 80 ms take nearly all of it" in found.evidence[1]
    assert found.fix.startswith("run one pass before")
    assert "expandable" not in found.fix


def allocating(folder: Path, idle: int, api: str = "cudaFree") -> Run:
    """Two kernels in a window of 1,000 µs, idle for `idle` between them, in a call."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 500)),
            call(api, 512, idle - 10),
            launched(505 + idle, kernel("b", 510 + idle, 500 - idle)),
        ],
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(allocating(tmp_path, 49), "allocator-churn")


def test_from_5_percent_of_the_window_on(tmp_path: Path) -> None:
    assert_speaks(
        allocating(tmp_path, 50),
        "allocator-churn",
        cost_ns=50_000,
        gain_ns=40_000,
        evidence=["1 × cudaFree, 40.00 µs"],
        fix="allocate once",
    )


@pytest.mark.parametrize("api", ["cudaMallocAsync", "cudaEventQuery"])
def test_calls_that_do_not_stop_the_host(tmp_path: Path, api: str) -> None:
    """An allocation that is ordered on the stream returns at once, as other calls do."""
    assert_silent(allocating(tmp_path, 400, api), "allocator-churn")


@pytest.mark.parametrize("every", [1, 5])
def test_a_cache_that_is_switched_off(tmp_path: Path, every: int) -> None:
    """An allocation and a free for each kernel are not cache's; for each fifth they may be."""
    events = []
    for i in range(20):
        at = 300 * i
        if i % every == every - 1:
            events += [call("cudaMalloc", at, 100), call("cudaFree", at + 110, 100)]
        events.append(launched(at + 220, kernel("k", at + 230, 50)))
    (found,) = answers(opened(tmp_path, events), "allocator-churn")
    assert ("PYTORCH_NO_CUDA_MEMORY_CACHING" in found.fix) == (every == 1)
    assert ("switched off" in (found.cause or "")) == (every == 1)


def test_pinned_memory_of_the_host(tmp_path: Path) -> None:
    """It is not a GPU memory, and no cache of PyTorch's is off."""
    events = [launched(0, kernel("a", 10, 100))]
    for n in range(1, 9):
        at = n * 1_000
        events += [call("cudaHostAlloc", at - 850, 500), call("cudaFreeHost", at - 340, 300)]
        events += [launched(at - 10, kernel("a", at, 100))]
    (found,) = answers(opened(tmp_path, events), "allocator-churn")
    assert "allocates or frees pinned host memory" in found.summary
    assert "pinned memory once" in found.fix
    assert "CACHING" not in found.fix
