"""h2d-bound: copies from pinned host memory, with nothing beside them."""

from __future__ import annotations

from pathlib import Path

from support.copies import exposed_for, hidden_for, transfer
from support.rules import answers, assert_silent, assert_speaks
from support.traces import kernel, launched, opened

RULE, NAME = "h2d-bound", "Memcpy HtoD (Pinned -> Device)"


def test_400_of_1000_us(tmp_path: Path) -> None:
    assert_speaks(
        exposed_for(tmp_path, 400, NAME),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 × memcpy HtoD pinned → device, 1.000 MB in 400.0 µs (2.5 GB/s)", "100"],
        fix="prefetch the next",
        severity="critical",
        confidence="high",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(exposed_for(tmp_path / "a", 49, NAME), RULE)
    assert_speaks(
        exposed_for(tmp_path / "b", 50, NAME),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="prefetch the next",
        severity="warning",
    )


def test_hidden_behind_a_kernel(tmp_path: Path) -> None:
    assert_silent(hidden_for(tmp_path, 400, NAME), RULE)


def test_a_copy_on_a_stream_of_its_own_could_be_hidden(tmp_path: Path) -> None:
    """Between two kernels, too, but on stream 9: the finding says that no kernel runs there."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 490)),
            launched(20, transfer(NAME, 500, 400, stream=9), api="cudaMemcpyAsync"),
            launched(890, kernel("b", 900, 110)),
        ],
    )
    (found,) = answers(run, RULE)
    assert found.cost_ns == 400_000
    assert any(line.startswith("0") and "stream" in line for line in found.evidence)


def test_sizes_that_were_not_recorded(tmp_path: Path) -> None:
    assert_speaks(
        exposed_for(tmp_path, 400, NAME, None),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 × memcpy HtoD pinned → device, 400.0 µs"],
        fix="prefetch the next",
    )


def test_nothing_hides_a_copy_before_the_first_kernel(tmp_path: Path) -> None:
    """Three batches of 100 µs, each before 200 µs of work: two of them could be sent ahead."""
    events = []
    for number in range(3):
        begin = 100 + 300 * number
        events += [
            launched(20 * number, transfer(NAME, begin, 100)),
            launched(20 * number + 10, kernel("step", begin + 100, 200)),
        ]
    assert_speaks(
        opened(tmp_path, events),
        RULE,
        cost_ns=300_000,
        gain_ns=200_000,
        evidence=["3 × memcpy HtoD pinned → device"],
        fix="prefetch the next",
    )
