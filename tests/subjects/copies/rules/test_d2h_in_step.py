"""d2h-in-step: large copies to the host, with nothing beside them."""

from __future__ import annotations

from pathlib import Path

from support.copies import exposed_for, hidden_for, transfer
from support.rules import assert_silent, assert_speaks
from support.traces import call, kernel, launched, opened

RULE, NAME = "d2h-in-step", "Memcpy DtoH (Device -> Pinned)"


def test_400_of_1000_us(tmp_path: Path) -> None:
    assert_speaks(
        exposed_for(tmp_path, 400, NAME),
        RULE,
        cost_ns=400_000,
        gain_ns=400_000,
        evidence=["1 × memcpy DtoH device → pinned, 1.000 MB in 400.0 µs (2.5 GB/s)", "100"],
        fix="less and later",
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
        fix="less and later",
        severity="warning",
    )


def test_hidden_behind_a_kernel(tmp_path: Path) -> None:
    assert_silent(hidden_for(tmp_path, 400, NAME), RULE)


def test_the_idle_time_behind_the_hosts_wait_counts_too(tmp_path: Path) -> None:
    """Copy [110, 310); the host waits for it until 320, and kernel b starts at 340.

    Exposed for 200 µs, idle for 30 behind it. Without copy and wait kernel b follows kernel a after
    1 µs, at 111 instead of 340.
    """
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            launched(20, transfer(NAME, 110, 200), api="cudaMemcpyAsync"),
            call("cudaStreamSynchronize", 30, 290),
            launched(330, kernel("b", 340, 100)),
        ],
    )
    assert_speaks(run, RULE, cost_ns=230_000, gain_ns=229_000, evidence=["200.0 µs"], fix="later")


def test_values_of_up_to_64_kib_are_left_to_sync_in_step(tmp_path: Path) -> None:
    assert_silent(exposed_for(tmp_path, 400, NAME, 65_536), RULE)
