"""limits: the window if one thing were free, on timelines whose limits are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.rules import answers, assert_silent
from support.traces import call, collective, copy, kernel, launched, opened, opened_ranks


def ladder(run: Any) -> dict[str, int]:
    return dict(run.ask("limits").select("free", "window_ns").iter_rows())


def test_a_slow_host(tmp_path: Path) -> None:
    """Ten kernels of 10 µs, one each 100 µs: without the host they follow each other."""
    events = [launched(100 * n, kernel("k", 100 * n + 5, 10)) for n in range(10)]
    rungs = ladder(opened(tmp_path, events))
    assert list(rungs) == ["host"]
    assert 100_000 <= rungs["host"] <= 120_000


def test_copies_hide_nothing(tmp_path: Path) -> None:
    """Copy and kernel in turn on one stream, all launched at once: 10 × (20 + 30) µs."""
    events: list[Any] = []
    for n in range(10):
        at = 200 + 50 * n
        upload = copy("Memcpy HtoD (Pinned -> Device)", at, 20, 8)
        events += launched(4 * n, upload, "cudaMemcpyAsync", dur=2)
        events += launched(4 * n + 2, kernel("k", at + 20, 30), dur=2)
    rungs = ladder(opened(tmp_path, events))
    assert rungs["copies"] == 300_000
    assert rungs["host"] == 500_000
    assert rungs["all of these"] == 300_000


def test_waits_for_the_device_stay(tmp_path: Path) -> None:
    """A host that takes nothing waits as long as before for each kernel of 90 µs."""
    events: list[Any] = []
    for n in range(10):
        at = 100 * n
        events += [
            *launched(at, kernel("k", at + 8, 90)),
            call("cudaDeviceSynchronize", at + 6, 93),
        ]
    assert ladder(opened(tmp_path, events))["host"] >= 900_000


def hosts(*late: int) -> list[list[Any]]:
    """Ranks with ten rounds of a kernel of 10 µs and a collective of 5; the host of each launches
    every so many µs, and a collective ends 5 µs behind the last to come."""
    slowest, ranks = max(late), []
    for every in late:
        events: list[Any] = []
        for n in range(10):
            own, met = n * slowest, n * slowest + slowest
            events += launched(own + every - 20, kernel("k", own + every - 15, 10))
            start = own + every
            events += launched(own + every - 8, collective(start, met + 5 - start))
        ranks.append(events)
    return ranks


def test_all_hosts_together_bind_a_job(tmp_path: Path) -> None:
    run = opened_ranks(tmp_path, *hosts(300, 300, 300, 300))
    assert run.ask("limits").filter(free="host").item(0, "gain_pct") > 50
    (found,) = answers(run, "hosts-bind-job")
    assert "All 4 ranks wait for their hosts" in found.summary
    assert found.is_remark


def test_one_late_rank_is_no_job_of_slow_hosts(tmp_path: Path) -> None:
    assert_silent(opened_ranks(tmp_path, *hosts(40, 300, 40, 40)), "hosts-bind-job")


@pytest.mark.parametrize("ranks", [1, 2])
def test_busy_devices_are_not_bound_by_hosts(tmp_path: Path, ranks: int) -> None:
    busy = [launched(4 * n, kernel("k", 100 + 100 * n, 100)) for n in range(10)]
    run = opened_ranks(tmp_path, *[busy] * ranks) if ranks > 1 else opened(tmp_path, busy)
    assert_silent(run, "hosts-bind-job")
