"""One call that is most of a recording without a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rules import answers, assert_silent
from support.traces import call, kernel, launched, opened

RULE = "host-first-call"


def test_the_first_call_is_nearly_all(tmp_path: Path) -> None:
    """From 0 to 1,000 µs, of which the first copy takes 900; the second takes 20."""
    events = [call("hipMemcpy", 50, 900), call("hipMemcpy", 960, 20), call("hipFree", 990, 10),
              call("hipMalloc", 0, 10)]  # fmt: skip
    (found,) = answers(opened(tmp_path, events), RULE)
    assert (found.cost_ns, found.cost_pct, found.is_remark) == (900_000, 90.0, True)
    assert "hipMemcpy takes 900.0 µs of the 1.000 ms" in found.summary


@pytest.mark.parametrize(
    "events",
    [
        [call("hipMemcpy", 0, 450), call("hipFree", 990, 10)],
        [call("hipMemcpy", 0, 600), call("hipMemcpy", 600, 400)],
        [call("hipDeviceSynchronize", 0, 900), call("hipFree", 990, 10)],
        [call("hipMemcpy", 0, 900), launched(950, kernel("k", 960, 40))],
    ],
    ids=["less than half", "twice", "a wait", "a device"],
)
def test_other_recordings(tmp_path: Path, events: list) -> None:
    assert_silent(opened(tmp_path, events), RULE)
