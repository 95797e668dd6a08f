"""What bounds the run comes first in every view, and its share names the right whole."""

from __future__ import annotations

from typing import Any

from sightline.answer.price_words import name_whole, write_price
from sightline.diagnosis.ranking import OUTSIDE, SEGMENT

FINDING: dict[str, Any] = {
    "rule": "host-outside", "where": {SEGMENT: OUTSIDE}, "confidence": "high",
    "cost_ns": 9_000_000_000, "cost_pct": 90.0, "gain_ns": None, "gain_pct": None,
}  # fmt: skip


def test_a_share_of_the_recording_is_not_one_of_the_window() -> None:
    rows = [{"rank": 0, "device_id": 0}]
    assert name_whole(FINDING, has_timeline=True) == "the recording"
    assert write_price(FINDING, rows)[0] == "costs 9.000 s (90.0 % of the recording)"
    inside = {**FINDING, "rule": "host-late", "where": {}}
    assert write_price(inside, rows)[0] == "costs 9.000 s (90.0 %)"
