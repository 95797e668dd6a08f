"""slow-device-memory: all large passes far below the memory's rate."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import computed, kernel, opened, told

RULE, GPU = "slow-device-memory", "NVIDIA GeForce RTX 3060"
SHAPE = [8, 1024, 1024]
MOVED = 2 * 4 * 8 * 1024 * 1024  # read and written, in fp32
LEAST_NS = MOVED / 360


def passes(
    folder: Path, length: int, count: int = 6, shape: list[int] = SHAPE, other: int = 0
) -> Run:
    """Operators that pass over a tensor of this shape, each for so many µs, and one kernel more."""
    events = [
        computed(
            "aten::relu",
            20 * n,
            kernel("k", 500 + n * length, length),
            **told(shape, dtype="float"),
        )
        for n in range(count)
    ]
    if other:
        events.append(computed("own", 20 * count, kernel("x", 500 + count * length, other)))
    return opened(folder, events, deviceProperties=[{"id": 0, "name": GPU}])


def test_passes_at_a_twentieth_of_the_rate(tmp_path: Path) -> None:
    """67.1 MB take 186.4 µs at 360 GB/s, and took 4,000: 22.9 of 24 ms could go."""
    assert_speaks(
        passes(tmp_path, 4_000),
        RULE,
        cost_ns=pytest.approx(6 * (4_000_000 - LEAST_NS), abs=6),
        gain_ns=pytest.approx(6 * (4_000_000 - LEAST_NS), abs=6),
        evidence=["the largest: aten::relu moves 67.11 MB at 16.8 GB/s of 360"],
        fix="nvidia-smi",
        severity="critical",
        confidence="medium",
    )


@pytest.mark.parametrize(
    "case",
    [
        {"length": 900},  # 21 % of the rate
        {"length": 4_000, "count": 4},
        {"length": 200, "shape": [8, 128, 1024]},  # 8.4 MB: it fits a cache
        {"length": 4_000, "count": 5, "other": 200_000},  # a tenth of the time is not in them
    ],
)
def test_what_proves_nothing(tmp_path: Path, case: dict[str, object]) -> None:
    assert_silent(passes(tmp_path, **case), RULE)  # type: ignore[arg-type]


def test_one_quick_quarter_shows_that_the_memory_is_quick(tmp_path: Path) -> None:
    """Six slow ones and three at 93 % of the rate."""
    events = [
        computed(
            "aten::relu", 20 * n, kernel("k", 500 + n * 4_000, 4_000), **told(SHAPE, dtype="float")
        )
        for n in range(6)
    ]
    events += [
        computed(
            "aten::relu",
            200 + 20 * n,
            kernel("k", 30_000 + n * 200, 200),
            **told(SHAPE, dtype="float"),
        )
        for n in range(3)
    ]
    run = opened(tmp_path, events, deviceProperties=[{"id": 0, "name": GPU}])
    assert_silent(run, RULE)
