"""queue-full: launch calls wait until an earlier kernel has started and made room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import Event, host, kernel, launched, opened

KERNELS, MS = 1_100, 1_000  # µs


def burst(
    folder: Path, *more: Event | list[Event], kernels: int = KERNELS, context: int | None = 1
) -> Run:
    """Kernels of 1 ms on one stream. The first 1,001 calls take 1 µs each; the 1,000 places of the
    queue are full then, and each further call returns 2 µs after a kernel has started: the first
    of them after 11 µs, the others after 1 ms.
    """
    place: dict[str, Any] = {} if context is None else {"context": context}
    work, at = [], 0
    for i in range(kernels):
        start = 10 + MS * i
        room = 10 + MS * (i - 1_000) + 2
        length = 1 if i <= 1_000 else room - at
        work.append(launched(at, kernel("k", start, MS, **place), dur=length))
        at += length
    return opened(folder, [*work, *more])


WAITED = 11 + 98 * MS  # 99 calls


def test_one_stream_loses_nothing(tmp_path: Path) -> None:
    """98 of 1,100 ms are waited for: it is the device that limits."""
    assert_silent(burst(tmp_path), "queue-full")


def test_another_stream_gets_its_work_late(tmp_path: Path) -> None:
    """A kernel of 1.1 s on a second stream, launched behind the burst, ends last: without the
    waits it would start, and end, as much earlier as the calls had waited.
    """
    called = 1_001 + WAITED
    other = launched(called, kernel("other", called + 10, KERNELS * MS, stream=8, context=1), dur=1)
    full = host("overhead", "Command Buffer Full", 1_002, 10)
    assert_speaks(
        burst(tmp_path, other, full),
        "queue-full",
        cost_ns=1000 * WAITED,
        gain_ns=1000 * WAITED,
        evidence=["8.2 %", "1 × command buffer full"],
        fix="CUDA graph",
        severity="warning",
    )


def test_too_few_operations_to_fill_a_queue(tmp_path: Path) -> None:
    assert_silent(burst(tmp_path, kernels=999), "queue-full")


def test_waits_of_under_5_percent(tmp_path: Path) -> None:
    """30 calls wait: 29 of 1,031 ms."""
    assert_silent(burst(tmp_path, kernels=1_031), "queue-full")


@pytest.mark.xfail(strict=True, reason="streams without a context are not matched")
def test_a_recording_that_names_no_contexts(tmp_path: Path) -> None:
    """ROCm's recordings have none; the streams are the same."""
    assert answers(burst(tmp_path, context=None), "queue-full")
