"""many-small-copies: copies of up to 64 KiB, each of which costs a launch."""

from __future__ import annotations

from pathlib import Path

from sightline.core.model.run import Run
from support.copies import transfer
from support.rules import answers, assert_silent, assert_speaks
from support.traces import kernel, launched, opened

RULE, NAME = "many-small-copies", "Memcpy HtoD (Pageable -> Device)"


def copies(folder: Path, size: int, kernels: int = 1) -> Run:
    """Ten copies of 2 µs, launched every 50 µs, and then kernels of 100 µs in the same rhythm."""
    small = [
        launched(50 * i, transfer(NAME, 50 * i + 10, 2, size), api="cudaMemcpyAsync")
        for i in range(10)
    ]
    work = [launched(500 + 50 * i, kernel("k", 510 + 50 * i, 10)) for i in range(kernels)]
    return opened(folder, [*small, *work])


def test_ten_copies_of_4_kib(tmp_path: Path) -> None:
    """They run for 20 µs, and ten gaps of 48 µs are behind them, in a window of 510.

    Without copies and the host's work for them, the window begins with the first call, at 0. The
    kernel's call comes 45 µs after that, and the kernel 10 µs later: [55, 65).
    """
    assert_speaks(
        copies(tmp_path, 4_096),
        RULE,
        cost_ns=500_000,
        gain_ns=510_000 - 65_000,
        evidence=["10 × memcpy HtoD pageable → device, 40.96 kB in 20.00 µs"],
        fix="one buffer",
        severity="critical",
    )


def test_64_kib_are_small_and_one_byte_more_is_not(tmp_path: Path) -> None:
    assert_silent(copies(tmp_path / "a", 65_537), RULE)
    assert_speaks(
        copies(tmp_path / "b", 65_536),
        RULE,
        cost_ns=500_000,
        gain_ns=445_000,
        evidence=["10 × memcpy"],
        fix="one buffer",
    )


def test_where_half_of_the_operations_are_kernels_these_set_the_pace(tmp_path: Path) -> None:
    assert_silent(copies(tmp_path, 4_096, kernels=10), RULE)


def test_blocking_copies_one_behind_the_other(tmp_path: Path) -> None:
    """Each call returns when its copy is done; what lies between two of them is theirs, too."""
    name = "Memcpy DtoH (Device -> Pinned)"
    events = [launched(0, kernel("k", 10, 10))]
    for i in range(20):
        at = 30 + 20 * i
        events.append(launched(at, transfer(name, at + 4, 2, 4), api="cudaMemcpy", dur=8))
    run = opened(tmp_path, [*events, launched(440, kernel("k", 450, 10))])
    (found,) = answers(run, RULE)
    assert found.cost_ns is not None
    assert found.cost_ns >= 19 * 20_000
    # What is left to the wait are the gaps beside the kernels.
    assert all((f.direct_ns or 0) < 60_000 for f in answers(run, "sync-in-step"))
