"""Counters of the report: numbers of any size in columns that stay apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sightline.views.terminal.marks_text import print_counters


@given(st.floats(0, 1e18) | st.floats(0, 1e9), st.sampled_from([None, "W", "bytes"]))
def test_columns_stay_apart(value: float, unit: str | None) -> None:
    row = {"metric": "power", "unit": unit, "device_id": 0, "source": None, "rise": None}
    (_, line) = print_counters([row | dict.fromkeys(("mean", "min", "max"), value)])
    assert len(line.plain[32:].split()) in (3, 6)  # with units of bytes
