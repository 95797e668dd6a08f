"""small-collectives: exposed collectives of at most 1 MiB."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import collective, kernel, launched, opened

RULE = "small-collectives"


def between(folder: Path, length: int, floats: int) -> Run:
    """A window of 1,000 µs: kernel, collective of `length`, kernel, all queued."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 490)),
            launched(20, collective(500, length, floats=floats)),
            launched(40, kernel("b", 500 + length, 510 - length)),
        ],
    )


def test_a_collective_of_4_kb(tmp_path: Path) -> None:
    assert_speaks(
        between(tmp_path, 400, 1_000),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["400.0 µs", "4.000 kB"],
        fix="send more at once",
        severity="critical",
    )


def test_1_mib_is_small_and_one_number_more_is_not(tmp_path: Path) -> None:
    assert_silent(between(tmp_path / "a", 400, (1 << 18) + 1), RULE)
    assert_speaks(
        between(tmp_path / "b", 400, 1 << 18),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1.049 MB"],
        fix="send more at once",
    )


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    assert_silent(between(tmp_path / "a", 49, 1_000), RULE)
    assert_speaks(
        between(tmp_path / "b", 50, 1_000),
        RULE,
        cost_ns=50_000,
        gain_ns=50_000,
        evidence=["50.00 µs"],
        fix="send more at once",
    )


def test_without_sizes_nothing_is_small(tmp_path: Path) -> None:
    run = opened(tmp_path, [kernel("a", 10, 490), kernel("ncclDevKernel_AllReduce", 500, 400)])
    assert_silent(run, RULE)


def test_those_launched_in_a_row_are_one_call(tmp_path: Path) -> None:
    """Two collectives of 100 µs at [300, 400) and [600, 700), then the last kernel, from 900 on.

    The calls follow each other every 300 µs: at 290, 590 and 890. Sent together, the second one
    has no call of its own, and the last kernel's is 300 µs earlier: the transfer and 200 µs of
    waiting for the host are gone.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 290)),
            launched(290, collective(300, 100, floats=1_000)),
            launched(590, collective(600, 100, floats=1_000)),
            launched(890, kernel("b", 900, 100)),
        ],
    )
    assert_speaks(
        run,
        RULE,
        cost_ns=300_000,
        gain_ns=300_000,
        evidence=["2 operations"],
        fix="send more at once",
    )


def test_bytes_take_their_time_also_when_they_are_sent_together(tmp_path: Path) -> None:
    """Of 40 us and of 20 kB/us: 4, 4 and 80 kB in a row take 40.2, 40.2 and 44 us.

    Sent together, the 88 kB take 40 + 4.4 us, where they took 124.4.
    """
    sizes = (1_000, 1_000, 20_000)
    lengths = (40.2, 40.2, 44.0)
    at, events = 200.0, [launched(0, kernel("a", 10, 190))]
    for nth, (floats, length) in enumerate(zip(sizes, lengths, strict=True)):
        events.append(launched(20 + nth, collective(at, length, floats=floats)))
        at += length
    events.append(launched(30, kernel("b", at, 200)))
    assert_speaks(
        opened(tmp_path, events),
        RULE,
        cost_ns=124_400,
        gain_ns=80_000,
        evidence=["3 operations"],
        fix="send more at once",
    )
