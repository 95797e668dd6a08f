"""pageable-copies: copies from pageable host memory, which block the host too."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import exports
from support.copies import exposed_for, hidden_for, transfer
from support.rules import answers, assert_silent, assert_speaks
from support.traces import kernel, launched, opened
from synth_nsys import Export

RULE, NAME = "pageable-copies", "Memcpy HtoD (Pageable -> Device)"


def test_400_of_1000_us(tmp_path: Path) -> None:
    assert_speaks(
        exposed_for(tmp_path, 400, NAME),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 × memcpy HtoD pageable → device, 1.000 MB in 400.0 µs (2.5 GB/s)", "100"],
        fix="tensor.pin_memory()",
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
        fix="tensor.pin_memory()",
        severity="warning",
    )


def test_hidden_behind_a_kernel(tmp_path: Path) -> None:
    assert_silent(hidden_for(tmp_path, 400, NAME), RULE)


def test_the_call_that_blocks_leaves_a_gap(tmp_path: Path) -> None:
    """The call returns at 325, 5 µs after the copy's end; the next kernel starts at 340.

    Exposed for 200 µs, idle for 20 behind it. Without the copy kernel b follows kernel a after
    1 µs, at 111 instead of 340.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, transfer(NAME, 120, 200), api="cudaMemcpyAsync", dur=305),
            launched(330, kernel("b", 340, 100)),
        ],
    )
    assert_speaks(run, RULE, cost_ns=229_000, gain_ns=229_000, evidence=["200.0 µs"], fix="pin")


def test_pinned_memory(tmp_path: Path) -> None:
    assert_silent(exposed_for(tmp_path, 400, "Memcpy HtoD (Pinned -> Device)"), RULE)


@pytest.mark.parametrize("runs", [1, 2])
def test_pinned_copies_still_take_what_the_link_needs(tmp_path: Path, runs: int) -> None:
    """16 MiB in 3 ms on an RTX 2080 Ti, PCI Express 3: 13.2 GB/s leave 1.271 ms.

    A kernel that runs again hides it, twice 650 µs; one that runs once waits for what was sent.
    """
    export = Export()
    export.add(
        "TARGET_INFO_GPU",
        id=0,
        name="NVIDIA GeForce RTX 2080 Ti",
        smCount=68,
        computeMajor=7,
        computeMinor=5,
    )
    size, us = 16 << 20, 1_000
    export.api("cudaMemcpy", 0, 3_010 * us, 1)
    export.copy(1, 10 * us, 3_010 * us, 1, size, 0, 2)
    for run_ in range(runs):
        at = (3_020 + 660 * run_) * us
        export.api("cudaLaunchKernel", at, at + 5 * us, 2 + run_)
        export.kernel("histogram", at + 10 * us, at + 660 * us, 2 + run_)
    (found,) = answers(exports.opened(tmp_path, export), RULE)
    assert found.gain_ns is not None
    least = round(size / 13.2)
    stays = least if runs == 1 else 0
    # The copy's call begins 10 µs before it, and returns 20 µs before the next one launches.
    assert 3_000 * us - stays <= found.gain_ns <= 3_020 * us - stays
    assert any("their bytes take 1.271 ms" in line for line in found.evidence)
    assert any("only in parts" in line for line in found.evidence) is (runs == 1)
