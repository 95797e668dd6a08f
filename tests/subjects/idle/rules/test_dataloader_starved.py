"""dataloader-starved: the launching thread is in the data loader while the device is idle."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_abstains, assert_silent, assert_speaks
from support.traces import kernel, launched, op, opened

IN_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WITH_WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading(folder: Path, since: int, until: int, loader: str = IN_PROCESS, then: int = 10) -> Run:
    """Two kernels of 100 µs, and a batch between them; it is `then` µs from it to the next call,
    and as long from that to the second kernel.
    """
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 100)),
            op(loader, since, until - since),
            launched(until + then, kernel("b", until + 2 * then, 100)),
        ],
    )


def test_a_batch_that_takes_400_us(tmp_path: Path) -> None:
    """Idle in [110, 470). Without the loader's 400 µs the call comes at 60 instead of 460, so
    the kernel waits only for the one before it, and follows that 1 µs later, at 111.
    """
    found = assert_speaks(
        loading(tmp_path, 50, 450),
        "dataloader-starved",
        cost_ns=360_000,
        gain_ns=359_000,
        evidence=["1 gap of 360.0 µs", IN_PROCESS],
        fix="num_workers",
    )
    assert found.cause is not None
    assert "the training process loads it itself" in found.cause


def test_a_loader_with_workers_is_not_said_to_be_in_the_process(tmp_path: Path) -> None:
    found = assert_speaks(
        loading(tmp_path, 50, 450, WITH_WORKERS),
        "dataloader-starved",
        cost_ns=360_000,
        gain_ns=359_000,
        evidence=[WITH_WORKERS],
        fix="num_workers",
    )
    assert found.cause is not None
    assert "process itself" not in found.cause


def test_under_10_percent_of_the_window(tmp_path: Path) -> None:
    """Idle for 22 of 222 µs: 9.9 %; one µs more is 23 of 223, 10.3 %."""
    assert_silent(loading(tmp_path / "a", 50, 130, then=1), "dataloader-starved")
    assert_speaks(
        loading(tmp_path / "b", 50, 131, then=1),
        "dataloader-starved",
        cost_ns=23_000,
        gain_ns=22_000,
        evidence=["1 gap of 23.00 µs"],
        fix="num_workers",
    )


def test_without_cpu_activity_it_is_not_judged(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 10, 100), kernel("b", 470, 100)])
    assert_abstains(run, "dataloader-starved", "no CPU activity was recorded")


def passes(folder: Path, *, silent_ms: int, last_ms: int = 20) -> Run:
    """Three passes over a loader with workers, of three batches of 2 ms with ten launches each.

    Before the first batch of a pass the thread is silent, and the last `__next__` finds none.
    """
    events = []
    at = 0
    for _ in range(3):
        at += silent_ms * 1000
        for batch in range(4):
            took = last_ms * 1000 if batch == 3 else 100
            events.append(op(WITH_WORKERS, at, took))
            at += took
            for _ in range(10 if batch < 3 else 0):
                events.append(launched(at, kernel("a", at + 10, 150)))
                at += 200
    return opened(folder, events)


def test_workers_that_are_started_for_each_pass(tmp_path: Path) -> None:
    """Of three passes the second and third are in the window with their silence of 60 ms."""
    (found,) = answers(passes(tmp_path, silent_ms=60), "dataloader-starved")
    assert "start its workers, pass after pass" in found.summary
    assert (found.fix or "").startswith("DataLoader(..., persistent_workers=True), which keeps")
    assert found.cost_ns == pytest.approx(2 * (60 + 20) * 1e6, rel=0.02)
    assert found.gain_ns == pytest.approx(2 * (60 + 20) * 1e6, rel=0.02)


def test_a_loader_that_goes_on_at_once_starts_nothing(tmp_path: Path) -> None:
    (found,) = answers(passes(tmp_path, silent_ms=2), "dataloader-starved")
    assert "next batch" in found.summary
    assert (found.fix or "").startswith("raise num_workers")
