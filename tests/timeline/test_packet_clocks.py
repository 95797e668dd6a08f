"""Clocks of hosts by their packets: what Trace Compass publishes, exact truth, and another way."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.timeline.packet_clocks import find_line, fit_packet_clocks
from support.campaigns import examples

SECOND = 10**9
# SyncTest.java of Trace Compass (tmf.core.tests), testFullyIncremental: packets as (sender, when,
# when received) in s, and with each the slope and offset that it expects from t1 to t2 by then. Of
# the last but one it expects 0.375 and 1.625, and a failure only of the last: docs/accuracy.md.
MATCHES: list[tuple[str, int, int, Any]] = [
    ("t2", 1, 1, None),
    ("t1", 1, 3, None),
    ("t2", 2, 3, None),
    ("t1", 3, 5, (0.75, 1.25)),
    ("t1", 4, 8, (0.75, 1.25)),
    ("t2", 4, 5, (1.125, 0.875)),
    ("t2", 4, 6, (1.125, 0.875)),
    ("t1", 6, 7, (0.725, 1.275)),
    ("t1", 7, 4, "fail"),
    ("t2", 7, 3, "fail"),
]


OFF = 1_000 * SECOND  # of t2's clock, that it may not stay as it is


@pytest.mark.parametrize("known", [n for n, match in enumerate(MATCHES, 1) if match[3] is not None])
def test_the_line_is_that_of_trace_compass(known: int) -> None:
    matches = MATCHES[:known]
    above = [(sent * SECOND, got * SECOND + OFF) for who, sent, got, _ in matches if who == "t1"]
    below = [(got * SECOND, sent * SECOND + OFF) for who, sent, got, _ in matches if who == "t2"]
    line = find_line(above, below, most_drift=10.0)
    expected = matches[-1][3]
    if expected == "fail":
        assert line is None
        return
    assert line is not None
    slope, offset = expected
    assert 1 + line.drift == pytest.approx(slope)
    assert line.shift - line.drift * line.at == pytest.approx(offset * SECOND + OFF, abs=2)


def make_packets(
    seed: int, clocks: dict[int, tuple[int, float]], links: list[tuple[int, int]], *, n: int = 60
) -> pl.DataFrame:
    """Packets between hosts whose clock is t + offset + drift × t at the true time t, in ns."""
    chance = random.Random(seed)

    def show(host: int, true: int) -> int:
        offset, drift = clocks[host]
        return true + offset + round(drift * true)

    rows = []
    for link in links:
        for _ in range(n):
            sender, receiver = link if chance.random() < 0.5 else link[::-1]
            sent = chance.randrange(20 * SECOND)
            delay = 20_000 + int(chance.expovariate(1 / 300_000))
            rows.append((sender, receiver, show(sender, sent), show(receiver, sent + delay)))
    schema = ["sender", "receiver", "sent_ns", "received_ns"]
    return pl.DataFrame(rows, schema=schema, orient="row")


# Of the time since 1970, as LTTng records it.
EPOCH = 1_700_000_000 * SECOND


@given(st.integers(0, 10**6), st.integers(-(10**12), 10**12), st.floats(-3e-4, 3e-4))
@settings(max_examples=examples(60), deadline=None)
def test_the_truth_lies_within_the_uncertainty(seed: int, offset: int, drift: float) -> None:
    """Three hosts in a row: 0 and 2 meet only at 1, which is off by `offset` and `drift`."""
    clocks = {0: (EPOCH, 0.0), 1: (EPOCH + offset, drift), 2: (EPOCH - 7 * offset, -drift / 2)}
    packets = make_packets(seed, clocks, [(0, 1), (2, 1)])
    fit = fit_packet_clocks(packets)
    assert fit is not None
    assert (fit.contradictory, fit.packets) == (0, 120)
    assert fit.clocks["component"].to_list() == [0, 0, 0]
    times = [
        (row["sent_ns"], row["sender"], row["received_ns"], row["receiver"])
        for row in packets.rows(named=True)
    ]
    rows = {row["rank"]: row for row in fit.clocks.rows(named=True)}

    def move(host: int, at: int) -> int:
        row = rows[host]
        return at + row["shift_ns"] + round(row["drift"] * (at - row["at_ns"]))

    for sent, sender, got, receiver in times:
        assert move(sender, sent) <= move(receiver, got) + 2  # both are rounded
    for host in (1, 2):
        offset_, drift_ = clocks[host]
        seen = [t for sent, s, got, r in times for t, h in ((sent, s), (got, r)) if h == host]
        for at in (min(seen), max(seen)):
            true = (at - offset_) / (1 + drift_)
            assert abs(move(host, at) - (true + EPOCH)) <= rows[host]["uncertainty_ns"] + 1_000


def test_bounds_are_those_of_linear_programs() -> None:
    """The same by scipy's simplex: extreme slopes, and extreme heights at the ends."""
    from scipy.optimize import linprog

    packets = make_packets(5, {0: (0, 0.0), 1: (123_456, 4e-5)}, [(0, 1)], n=200)
    away = packets.filter(pl.col("sender") == 1).select("sent_ns", "received_ns").rows()
    back = packets.filter(pl.col("sender") == 0).select("received_ns", "sent_ns").rows()
    line = find_line(away, back)
    assert line is not None
    xs = [x for x, _ in (*away, *back)]
    first, last = min(xs), max(xs)
    rows = [((x - first) / SECOND, 1, y - x) for x, y in away]
    rows += [(-(x - first) / SECOND, -1, x - y) for x, y in back]
    limits = [(-500_000, 500_000), (None, None)]

    def find(*goal: float) -> float:
        found = linprog(goal, [row[:2] for row in rows], [row[2] for row in rows], bounds=limits)
        return float(found.fun)

    assert line.drift * SECOND == pytest.approx((find(1, 0) - find(-1, 0)) / 2, rel=1e-6)
    worst = 0.0
    for at in (first, last):
        here = line.shift + line.drift * (at - line.at)
        goal = (at - first) / SECOND
        worst = max(worst, here - find(goal, 1), -find(-goal, -1) - here)
    assert line.uncertainty == pytest.approx(worst, abs=3)


def test_clocks_that_no_packet_contradicts_stay() -> None:
    fit = fit_packet_clocks(make_packets(1, {0: (EPOCH, 0.0), 1: (EPOCH + 9_000, 0.0)}, [(0, 1)]))
    assert fit is not None
    assert fit.clocks.select("shift_ns", "drift").rows() == [(0, 0.0), (0, 0.0)]
    assert fit.clocks.filter(rank=1).item(0, "uncertainty_ns") >= 9_000


def test_packets_one_way_tell_nothing() -> None:
    packets = make_packets(1, {0: (0, 0.0), 1: (0, 0.0)}, [(0, 1)])
    assert fit_packet_clocks(packets.filter(pl.col("sender") == 0)) is None
    assert fit_packet_clocks(packets.clear()) is None


def test_a_clock_that_was_set_meanwhile_is_contradictory() -> None:
    before = make_packets(1, {0: (0, 0.0), 1: (0, 0.0)}, [(0, 1)])
    after = make_packets(2, {0: (0, 0.0), 1: (10**9, 0.0)}, [(0, 1)])
    fit = fit_packet_clocks(pl.concat([before, after]))
    assert fit is not None
    assert (fit.contradictory, fit.clocks.height) == (120, 0)


TIMES = st.integers(0, 2**63 - 1) | st.integers(0, 40)
PACKETS = st.tuples(st.integers(0, 2), st.integers(0, 2), TIMES, TIMES)


@given(st.lists(PACKETS, max_size=12))
@settings(max_examples=examples(200), deadline=None)
def test_damaged_times_give_clocks_that_contradict_nothing_or_none(
    rows: list[tuple[int, int, int, int]],
) -> None:
    schema = ["sender", "receiver", "sent_ns", "received_ns"]
    types = dict.fromkeys(schema, pl.Int64)
    fit = fit_packet_clocks(pl.DataFrame(rows, schema=types, orient="row"))
    if fit is not None:
        assert 0 <= fit.contradictory <= fit.packets
        assert fit.clocks["drift"].is_finite().all()
        assert (fit.clocks["uncertainty_ns"] >= 1).all()
