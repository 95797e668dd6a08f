"""The span of a recording, and of those that share a clock."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.span import find_one_clock, find_span
from sightline.testing import open_rows

DAY = 86_400_000_000_000


def test_of_several_clocks_the_one_with_most_rows_is_drawn(tmp_path: Path) -> None:
    """A log without a date counts from 1970; the trace beside it from today's epoch."""
    ops = [{"name": "aten::mm", "start_ns": 9 * DAY + n, "end_ns": 9 * DAY + n + 1} for n in (0, 5)]
    values = [{"metric": "m", "time_ns": time, "value": 1.0} for time in (0, DAY)]
    trace, log = tmp_path / "trace", tmp_path / "log"
    open_rows(trace, host_ops=ops)
    open_rows(log, counters=[*values[:1]], rank=1)
    places = [str(next(folder.glob("*.sightline"))) for folder in (trace, log)]
    run = sightline.open(*places, same_job=True)
    assert find_span(run) == (0, 9 * DAY + 6)
    assert find_one_clock(run) == (9 * DAY, 9 * DAY + 6)
    # A day apart is one clock still.
    one = open_rows(tmp_path / "one", counters=values)
    assert find_one_clock(one) == find_span(one) == (0, DAY)
    assert find_one_clock(open_rows(tmp_path / "none")) is None
