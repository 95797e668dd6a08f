"""Times, sizes and rates: from text and to text."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.units import (
    INT64_MAX,
    format_bytes,
    format_count,
    format_hours,
    format_note,
    format_ns,
    format_pct,
    format_rate,
    microseconds_to_ns,
    parse_duration_ns,
)
from sightline.errors import RequestError


def exact_ns(text: str) -> int:
    """Half to even: what Python's round() does with a fraction."""
    return round(Fraction(text) * 1000)


decimals = st.builds(
    lambda sign, whole, digits: f"{sign}{whole}" + (f".{digits}" if digits else ""),
    st.sampled_from(["", "-"]),
    st.integers(0, 10**15),
    st.text("0123456789", max_size=12),
)


@given(decimals)
def test_decimal_microseconds_are_exact(text: str) -> None:
    assert microseconds_to_ns(text) == exact_ns(text)


@given(st.integers(-9, 9), st.integers(0, 10**9), st.integers(-12, 6))
def test_exponents_are_exact(lead: int, digits: int, exponent: int) -> None:
    text = f"{lead}.{digits}e{exponent}"
    assert microseconds_to_ns(text) == exact_ns(text)


@given(st.integers(-(INT64_MAX // 1000), INT64_MAX // 1000))
def test_whole_microseconds(value: int) -> None:
    assert microseconds_to_ns(value) == value * 1000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0.0005", 0),
        ("0.0015", 2),
        ("0.0025", 2),
        ("0.00250000000000000000001", 3),
        ("-0.0005", 0),
        ("-0.0015", -2),
        ("1719853884000001.2345", 1719853884000001234),
        ("1767200431222000.0005", 1767200431222000000),
        ("1e3", 1_000_000),
        ("5.", 5_000),
    ],
)
def test_halves_go_to_the_even_ns(text: str, ns: int) -> None:
    assert microseconds_to_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "abc", "NaN", "Infinity", "-Infinity", "1e400", "1e999999999", "9" * 30, "1,5", "--1"],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert microseconds_to_ns(text) is None


@pytest.mark.parametrize("value", [INT64_MAX, -INT64_MAX, 10**30, INT64_MAX // 1000 + 1])
def test_times_beyond_int64_are_none(value: int) -> None:
    assert microseconds_to_ns(value) is None
    assert microseconds_to_ns(str(value)) is None


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_none(text: str) -> None:
    got = microseconds_to_ns(text)
    assert got is None or -INT64_MAX <= got <= INT64_MAX


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("250", 250),
        ("5us", 5_000),
        ("5 µs", 5_000),
        ("1.5ms", 1_500_000),
        ("2s", 2 * 10**9),
        (" 3ns ", 3),
        ("0.5ns", 0),
        ("1.5ns", 2),
        ("0", 0),
        ("123456789.123456789s", 123456789123456789),
    ],
)
def test_durations_that_a_person_types(text: str, ns: int) -> None:
    assert parse_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["", "ms", "5 m", "-5us", "1e3us", "5us5", "١us", "9" * 40 + "s"])
def test_what_is_no_duration_is_an_error(text: str) -> None:
    with pytest.raises(RequestError):
        parse_duration_ns(text)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (412, "412 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (3_908_123, "3.908 ms"),
        (-1_500, "-1.500 µs"),
        (12_345, "12.35 µs"),
        (999_499, "999.5 µs"),
        (999_600, "1.000 ms"),
        (61_000_000_000, "61.00 s"),
        (3_600_000_000_000, "3600.0 s"),
    ],
)
def test_format_ns(ns: int | None, text: str) -> None:
    assert format_ns(ns) == text


@given(st.integers(-(10**15), 10**15))
def test_format_ns_loses_less_than_one_in_a_thousand(ns: int) -> None:
    number, unit = format_ns(ns).split()
    scale = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}[unit]
    assert abs(Decimal(number) * scale - ns) <= abs(Decimal(ns)) / 1000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.000 kB"),
        (25_480_000_000, "25.48 GB"),
        (-2_000_000, "-2.000 MB"),
        (85_050_261_504, "85.05 GB"),
        (3 * 10**15, "3.000 PB"),
    ],
)
def test_format_bytes_is_decimal(value: int | None, text: str) -> None:
    assert format_bytes(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (27.7e9, "27.70 GB/s"), (0, "0 B/s")])
def test_format_rate(value: float | None, text: str) -> None:
    assert format_rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0.0 %"),
        (0.04, "<0.1 %"),
        (0.051, "0.1 %"),
        (-0.01, "<0.1 %"),
        (99.96, "100.0 %"),
        (12.34, "12.3 %"),
    ],
)
def test_format_pct_shows_what_is_not_zero(value: float | None, text: str) -> None:
    assert format_pct(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (0, "0"), (1_234_567, "1,234,567")])
def test_format_count(value: int | None, text: str) -> None:
    assert format_count(value) == text


@pytest.mark.parametrize(
    ("count", "text", "note"),
    [
        (None, "the file is cut off", "the file is cut off"),
        (1200, "events were skipped", "1,200 events were skipped"),
        (1, "damaged events were skipped", "1 damaged event was skipped"),
        (1, "unmatched start or end events were left out",
         "1 unmatched start or end event was left out"),
        (1, "events that end before they start were left out",
         "1 event that ends before it starts was left out"),
        (1, "devices hand out more than their segments hold: events of segments are missing",
         "1 device hands out more than its segments hold: events of segments are missing"),
        (1, "entries could not be read", "1 entry could not be read"),
        (1, "processes without a rank did no recorded work",
         "1 process without a rank did no recorded work"),
        (1, "file in runs/tests skipped: a.txts", "1 file in runs/tests skipped: a.txts"),
        (1, "file in tests skipped: a", "1 file in tests skipped: a"),
        (1, "operations at a time that no clock can have were left out",
         "1 operation at a time that no clock can have was left out"),
        (1, "lines that are not stack were left out", "1 line that is not stack was left out"),
        (1, "entries that are not events were skipped", "1 entry that is not an event was skipped"),
        (1, "of 1 kernel launch have no kernel: lost", "1 of 1 kernel launch has no kernel: lost"),
        (1, "of 2,000 GPU operations have no call", "1 of 2,000 GPU operations has no call"),
        (1, "of 8 waits for events do not say which", "1 of 8 waits for events does not say which"),
        (1, "values are not numbers where others of the same name are: they were left out",
         "1 value is not a number where others of the same name is: it was left out"),
        (1, "events have no time; their order is used instead",
         "1 event has no time; its order is used instead"),
        (3, "of 8 waits for events do not say which", "3 of 8 waits for events do not say which"),
    ],
)  # fmt: skip
def test_a_note_on_one_thing_is_in_the_singular(count, text, note):
    assert format_note(count, text) == note


def test_hours_of_monitoring() -> None:
    told = [format_hours(round(s * 1e9)) for s in (0.5, 13, 119, 121, 7199, 97_200)]
    assert told == [
        "0.5 seconds", "13 seconds", "119 seconds", "2 minutes", "120 minutes", "27.0 hours",
    ]  # fmt: skip
