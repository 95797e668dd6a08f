"""profiler-overhead: the device waits while the profiler writes its buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import TID, host, kernel, launched, opened


def flushing(folder: Path, length: int, kind: str = "Buffer Flush") -> Run:
    """Idle in [110, 910) of a window of 1,200 µs; another thread flushes, from 120 on."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 100)),
            host("overhead", kind, 120, length, tid=TID + 1),
            launched(900, kernel("b", 910, 100)),
            launched(920, kernel("c", 1010, 100)),
            launched(940, kernel("d", 1110, 100)),
        ],
    )


def test_a_flush_of_760_us(tmp_path: Path) -> None:
    """Without it the call comes 760 µs earlier, and so does all that follows."""
    assert_speaks(
        flushing(tmp_path, 760),
        "profiler-overhead",
        cost_ns=800_000,
        gain_ns=760_000,
        evidence=["1 gap of 800.0 µs"],
        fix="record fewer steps",
    )


def test_half_of_the_gap(tmp_path: Path) -> None:
    """Only the half in which it flushes is its own."""
    (found,) = answers(flushing(tmp_path, 400), "profiler-overhead")
    assert found.cost_ns == 400_000


@pytest.mark.parametrize("kind", ["Driver Compiler", "Runtime Triggered Module Loading"])
def test_what_the_program_itself_costs(tmp_path: Path, kind: str) -> None:
    """CUPTI lists it beside its own costs; without the profiler it would be there too."""
    assert_silent(flushing(tmp_path, 760, kind), "profiler-overhead")
