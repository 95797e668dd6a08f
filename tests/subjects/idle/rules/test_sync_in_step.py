"""sync-in-step: the host waits for the device, and has nothing queued when it is done."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import call, copy, host, kernel, launched, op, opened


def waiting(folder: Path, until: int) -> Run:
    """Kernel [10, 110), waited for until 111; the next one is launched at `until` - 8."""
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 100)),
            op("aten::item", 18, 94),
            call("cudaDeviceSynchronize", 20, 91),
            launched(until - 8, kernel("b", until, 100)),
        ],
    )


def test_idle_behind_a_wait(tmp_path: Path) -> None:
    """Idle in [110, 140). Without the wait the second kernel is queued, and follows after 1 µs."""
    found = assert_speaks(
        waiting(tmp_path, 140),
        "sync-in-step",
        cost_ns=30_000,
        gain_ns=29_000,
        evidence=["1 gap of 30.00 µs", "1 × cudaDeviceSynchronize  in  aten::item"],
        fix="synchronize() out of the step",
        severity="warning",
    )
    assert found.cause is not None
    assert "copies values" not in found.cause


def test_a_value_that_is_read_back(tmp_path: Path) -> None:
    """4 bytes are copied in [111, 113) and waited for. Idle behind them: [113, 140).

    Without copy and wait kernel b follows kernel a after 1 µs, at 111 instead of 140.
    """
    found = assert_speaks(
        opened(
            tmp_path,
            [
                launched(0, kernel("a", 10, 100)),
                launched(
                    20, copy("Memcpy DtoH (Device -> Pinned)", 111, 2, 4), api="cudaMemcpyAsync"
                ),
                call("cudaStreamSynchronize", 30, 88),
                launched(130, kernel("b", 140, 100)),
            ],
        ),
        "sync-in-step",
        cost_ns=29_000,
        gain_ns=29_000,
        evidence=["1 gap of 27.00 µs", "1 × cudaStreamSynchronize"],
        fix=".item()",
    )
    assert found.cause is not None
    assert "copies values" in found.cause


def test_only_waits_before_a_gap_are_named(tmp_path: Path) -> None:
    """The first call waits for kernel a while b is queued: no gap follows it."""
    found = assert_speaks(
        opened(
            tmp_path,
            [
                launched(0, kernel("a", 10, 100)),
                launched(6, kernel("b", 110, 100)),
                call("cudaStreamSynchronize", 12, 100),
                call("cudaDeviceSynchronize", 120, 91),
                launched(232, kernel("c", 240, 100)),
            ],
        ),
        "sync-in-step",
        cost_ns=30_000,
        gain_ns=29_000,
        evidence=["1 gap of 30.00 µs", "1 × cudaDeviceSynchronize"],
        fix="synchronize() out of the step",
    )
    assert "cudaStreamSynchronize" not in str(found.evidence)


def test_the_line_that_asks_for_the_value(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            host("python_function", "train.py(88): log_loss", 15, 120),
            launched(0, kernel("a", 10, 100)),
            op("aten::item", 18, 94),
            call("cudaDeviceSynchronize", 20, 91),
            launched(132, kernel("b", 140, 100)),
        ],
    )
    found = assert_speaks(
        run,
        "sync-in-step",
        cost_ns=30_000,
        gain_ns=29_000,
        evidence=["100.0 % of it comes from  train.py(88): log_loss"],
        fix="synchronize() out of the step",
    )
    assert found.where["caller"] == "train.py(88): log_loss"


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """10 of 210 µs are 4.8 %, 11 of 211 are 5.2 %."""
    assert_silent(waiting(tmp_path / "a", 120), "sync-in-step")
    assert_speaks(
        waiting(tmp_path / "b", 121),
        "sync-in-step",
        cost_ns=11_000,
        gain_ns=10_000,
        evidence=["1 gap of 11.00 µs"],
        fix=".item()",
    )


def test_a_wait_that_ends_before_the_device_does(tmp_path: Path) -> None:
    """The call returned while the device was busy: what is late then is late for another reason."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaEventSynchronize", 20, 60),
            launched(190, kernel("b", 200, 100)),
        ],
    )
    assert_silent(run, "sync-in-step")


def test_a_call_that_finds_nothing_to_wait_for(tmp_path: Path) -> None:
    """The device ran dry at 110; the call at 150 returns after 4 µs."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaEventSynchronize", 150, 4),
            launched(192, kernel("b", 200, 100)),
        ],
    )
    assert_silent(run, "sync-in-step")
    assert run.ask("idle_parts").select("cause", "part_ns").rows() == [("host_late", 90_000)]


def test_the_call_that_waited_is_named(tmp_path: Path) -> None:
    """The stream was waited for until 111; the event behind it was long done."""
    found = assert_speaks(
        opened(
            tmp_path,
            [
                launched(0, kernel("a", 10, 100)),
                call("cudaStreamSynchronize", 20, 91),
                call("cudaEventSynchronize", 115, 3),
                launched(132, kernel("b", 140, 100)),
            ],
        ),
        "sync-in-step",
        cost_ns=30_000,
        gain_ns=29_000,
        evidence=["1 × cudaStreamSynchronize"],
        fix="synchronize() out of the step",
    )
    assert "cudaEventSynchronize" not in str(found.evidence)


def test_a_long_call_waited_for_what_is_not_recorded(tmp_path: Path) -> None:
    """Nothing that is recorded ran at 120, and yet the call took 60 µs."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            call("cudaDeviceSynchronize", 120, 60),
            launched(192, kernel("b", 200, 100)),
        ],
    )
    assert run.ask("idle_parts").select("cause", "part_ns").rows() == [("host_sync", 90_000)]


def test_an_operator_that_only_reads_goes_with_the_value(tmp_path: Path) -> None:
    """Turns of 80 µs; what reads takes 40 of them: its copy, its wait, and 27 µs of its own."""
    turns, events = 10, []
    for at in range(0, 80 * turns, 80):
        value = copy("Memcpy DtoH (Device -> Pinned)", at + 52, 2, 4)
        events += [
            op("aten::mul", at, 20),
            *launched(at + 10, kernel("k", at + 20, 5)),
            op("aten::item", at + 30, 40),
            op("aten::_local_scalar_dense", at + 33, 35),
            *launched(at + 45, value, api="cudaMemcpyAsync", dur=6),
            call("cudaStreamSynchronize", at + 52, 6),
        ]
    run = opened(tmp_path, events)
    (found,) = (f for f in sightline.findings(run) if f.rule == "sync-in-step")
    assert found.gain_ns is not None
    assert 38_000 * (turns - 1) <= found.gain_ns <= 40_000 * turns
