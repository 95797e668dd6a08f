"""idle: the gaps summed up by cause."""

from __future__ import annotations

from pathlib import Path

from support.ask import rows
from support.traces import kernel, launched, op, opened

FIELDS = "cause", "gaps", "total_ns", "window_pct", "idle_pct", "longest_ns", "host_op"


def test_two_late_launches(tmp_path: Path) -> None:
    """Gaps of 200 and 100 µs in a window of 600. In the middle of the first the host is in json."""
    run = opened(
        tmp_path,
        [
            launched(0, kernel("a", 10, 100)),
            op("json.dumps", 150, 100),
            launched(300, kernel("b", 310, 100)),
            launched(500, kernel("c", 510, 100)),
        ],
    )
    assert rows(run, "idle", *FIELDS) == [
        ("host_late", 2, 300_000, 50.0, 100.0, 200_000, "json.dumps"),
        ("unknown", 0, 0, 0.0, 0.0, None, None),
    ]


def test_what_counts_as_a_micro_gap_can_be_chosen(tmp_path: Path) -> None:
    """4 µs between two queued kernels."""
    work = [launched(0, kernel("a", 20, 10)), launched(6, kernel("b", 34, 10))]
    run = opened(tmp_path, work)
    assert rows(run, "idle", "cause", "gaps")[0] == ("micro_gap", 1)
    assert rows(run, "idle", "cause", "gaps", micro_ns=4_000) == [
        ("not_started", 1),
        ("unknown", 0),
    ]
