"""serialized-streams: kernels that would fit beside each other, on streams that take turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import Event, call, kernel, launched, opened

RULE = "serialized-streams"
A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8}


def small(name: str, start: int, length: int, stream: int, blocks: int = 54) -> Event:
    """A kernel of 384 threads of 168 registers: one block fills an SM's 65,536 registers."""
    shape = {"grid": [blocks, 1, 1], "block": [384, 1, 1], "registers per thread": 168}
    return kernel(name, start, length, stream=stream, **shape)


def turns(folder: Path, second: Event, first: int = 200, **device: Any) -> Run:
    """A kernel on stream 7 from 10 on, and one on stream 20 that was launched 5 µs behind it."""
    return opened(
        folder,
        [launched(0, small("a", 10, first, 7)), launched(5, second)],
        deviceProperties=[{**A100, "computeMinor": 0, **device}],
    )


def test_200_us_behind_200_us(tmp_path: Path) -> None:
    """Half of 108 SMs each: b could begin at 15, and all be over at 215 instead of 410."""
    found = assert_speaks(
        turns(tmp_path, small("b", 210, 200, 20)),
        RULE,
        cost_ns=195_000,
        gain_ns=195_000,
        evidence=["1 kernel waited", "195.0 µs earlier", "50.0 % of the multiprocessors"],
        fix="cudaStreamNonBlocking",
        confidence="low",
    )
    assert "legacy default stream" in (found.cause or "")
    assert (found.method or "").startswith("bound")


def test_the_legacy_default_stream_between_four(tmp_path: Path) -> None:
    """48 kernels of 200 µs on four blocking streams, one of 1 µs on the default stream behind each.

    All are launched at the begin. Without the default stream's waits four run at a time: 2.4 ms
    of 9.7, and the small ones behind each other.
    """
    events, at = [], 700
    for n in range(48):
        events += launched(12 * n, small("solve", at, 200, 13 + n % 4, blocks=20))
        events += launched(12 * n + 6, small("log", at + 202, 1, 7, blocks=1))
        at += 206
    run = opened(tmp_path, events, deviceProperties=[{**A100, "computeMinor": 0}])
    (found,) = answers(run, RULE)
    assert found.confidence == "medium"
    assert "legacy default stream" in (found.cause or "")
    assert found.gain_ns == pytest.approx(48 * 206_000 - 12 * 200_000, rel=0.15)


def test_event_waits_are_named(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            launched(0, small("a", 10, 200, 21)),
            call("cudaStreamWaitEvent", 5, 1),
            launched(7, small("b", 210, 200, 20)),
        ],
        deviceProperties=[{**A100, "computeMinor": 0}],
    )
    found = assert_speaks(
        run, RULE, cost_ns=193_000, gain_ns=193_000, evidence=["48.2 %"], fix="event"
    )
    assert "cudaStreamWaitEvent" in (found.cause or "")


@pytest.mark.parametrize(
    "second",
    [
        small("b", 210, 200, 20, blocks=55),  # no room beside the first one's 54 blocks
        small("b", 150, 200, 20),  # they overlap for 60 of 200 µs
        small("b", 210, 200, 7),  # one stream
        kernel("b", 210, 200, stream=20),  # of unknown shape
        small("ncclDevKernel_AllReduce", 210, 200, 20),  # communication
    ],
)
def test_where_nothing_is_to_be_won_or_known(tmp_path: Path, second: Event) -> None:
    assert_silent(turns(tmp_path, second), RULE)


def test_a_device_of_unknown_limits(tmp_path: Path) -> None:
    assert_silent(turns(tmp_path, small("b", 210, 200, 20), computeMajor=99), RULE)


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """A second kernel of 49 µs behind one of 950, and one of 55: it would hide behind the first."""
    assert_silent(turns(tmp_path / "a", small("b", 960, 49, 20), first=950), RULE)
    assert_speaks(
        turns(tmp_path / "b", small("b", 960, 55, 20), first=950),
        RULE,
        cost_ns=55_000,
        gain_ns=55_000,
        evidence=["5.5 %"],
        fix="event",
    )
