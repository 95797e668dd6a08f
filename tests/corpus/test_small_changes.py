"""What cannot matter does not, and a little changes little: over all traces of PyTorch.

Two events of one moment stand in a file in the order in which their buffers were written. A gap
that is a microsecond longer makes the run a microsecond longer: no answer may fall off a cliff
there, as where a successor is guessed below some limit and not above it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import SightlineError
from support.campaigns import sample
from support.corpus import list_recordings, name_recording

pytestmark = pytest.mark.corpus
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
MOST_BYTES = 1_500_000  # packed: some 20 MB, so that one trace is asked in a few seconds
US = Decimal(1)
# What a shift by 1 µs may change in a time that is read off a replay of the run: it is itself 1 µs
# longer, with the change and without. Whether one operation waits for another is a guess where no
# call says so, and the nearer they are the likelier: one guess may turn, and be worth that much.
# Where steps are told from the times themselves, what repeats may begin an operation earlier: HTA's
# `gpu_only_trace` is then 6 µs of 6 ms shorter, which is the most that was seen.
MOST_NS = 2_000
MOST_OF_WINDOW = {"breakdown": 0.0, "limits": 0.002, "findings": 0.002}
TRACES = [
    path for path in list_recordings("kineto/**/*.json.gz") if path.stat().st_size < MOST_BYTES
]
some_traces = pytest.mark.parametrize("path", sample(TRACES, every=10), ids=name_recording)


def read(path: Path) -> dict[str, Any]:
    """A trace with the digits of its times; skipped where it has no work of a device."""
    document = json.loads(
        gzip.decompress(path.read_bytes()).decode("utf-8", "replace"),
        parse_float=Decimal,
        strict=False,
    )
    if isinstance(document, list):
        document = {"traceEvents": document}
    events = document.get("traceEvents", [])
    if not any(isinstance(e, dict) and e.get("cat", "").lower() in DEVICE for e in events):
        pytest.skip("no work of a device")
    return document


def ask(folder: Path, document: dict[str, Any]) -> sightline.Session:
    folder.mkdir()
    path = folder / "trace.json"
    text = json.dumps(document, default=lambda number: f"<{number}>")
    path.write_text(re.sub(r'"<([-\d.E+]+)>"', r"\1", text))  # a decimal with all its digits
    return sightline.open(str(path))


def tie(events: list[Any]) -> None:
    """Let device events of two streams that begin within 1 ms begin in one moment, in place."""
    device = [e for e in events if isinstance(e, dict) and e.get("cat", "").lower() in DEVICE]
    before: dict[str, Any] = {}
    for event in sorted(device, key=lambda e: Decimal(e["ts"])):
        near = before and Decimal(event["ts"]) - Decimal(before["ts"]) < 1000 * US
        if near and event.get("tid") != before.get("tid"):
            event["ts"], before = before["ts"], {}
        else:
            before = event


def exchange(events: list[Any]) -> int:
    """Exchange device events of one moment, in place; how many stand elsewhere."""
    by_moment: dict[Any, list[int]] = defaultdict(list)
    for place, event in enumerate(events):
        if isinstance(event, dict) and event.get("cat", "").lower() in DEVICE:
            by_moment[str(event.get("ts"))].append(place)
    moved = 0
    for places in by_moment.values():
        others = places[::-1]
        taken = [events[place] for place in others]
        moved += sum(a != b for a, b in zip(places, others, strict=True))
        for place, event in zip(places, taken, strict=True):
            events[place] = event
    return moved


def shift(events: list[Any], at: Decimal, by: Decimal) -> None:
    """Move what begins later than `at`, in place."""
    for event in events:
        if isinstance(event, dict) and "ts" in event and Decimal(event["ts"]) > at:
            event["ts"] = Decimal(event["ts"]) + by


def answer(run: sightline.Session) -> dict[str, Any]:
    report = run.report()
    return {name: value for name, value in report.items() if name not in ("recordings", "marks")}


@some_traces
@pytest.mark.parametrize("tied", [False, True])
def test_events_of_one_moment_are_exchanged(path: Path, tmp_path: Path, tied: bool) -> None:
    document = read(path)
    if tied:
        tie(document["traceEvents"])
    try:
        before = answer(ask(tmp_path / "a", document))
    except SightlineError:
        pytest.skip("it is refused")
    if not exchange(document["traceEvents"]):
        pytest.skip("no two events of a moment")
    assert answer(ask(tmp_path / "b", document)) == before


@some_traces
@pytest.mark.parametrize("by", [US, -US])
def test_a_gap_is_a_microsecond_longer(path: Path, tmp_path: Path, by: Decimal) -> None:
    document = read(path)
    events = document["traceEvents"]
    try:
        before = ask(tmp_path / "a", document)
        before.ask("breakdown")
    except SightlineError:
        pytest.skip("it is refused")
    at = find_gap(events)
    if at is None:
        pytest.skip("no moment at which nothing runs")
    shift(events, at, by)
    after = ask(tmp_path / "b", document)
    window = before.ask("breakdown").get_column("window_ns").max()
    for name in ("breakdown", "limits"):
        most = MOST_NS + MOST_OF_WINDOW[name] * window
        one, two = before.ask(name), after.ask(name)
        times = [c for c in one.columns if c.endswith("_ns")]
        assert one.height == two.height
        for column in times:
            change = (one[column] - two[column]).abs().max()
            assert change is None or change <= most, (name, column)
    gains = [{f.title: f.gain_ns or 0 for f in run.findings() if not f.abstained}
             for run in (before, after)]  # fmt: skip
    for title in gains[0].keys() | gains[1].keys():
        change = abs(gains[0].get(title, 0) - gains[1].get(title, 0))
        assert change <= MOST_NS + MOST_OF_WINDOW["findings"] * window, title


def find_gap(events: list[Any]) -> Decimal | None:
    """The end of a gap of 3 µs or more in which no event of any kind runs, near the middle."""
    spans = sorted(
        (Decimal(e["ts"]), Decimal(e["ts"]) + Decimal(e.get("dur") or 0))
        for e in events
        if isinstance(e, dict) and e.get("ph") == "X" and "ts" in e
        and e.get("cat", "").lower() in DEVICE
    )  # fmt: skip
    reached, gaps = None, []
    for start, end in spans:
        if reached is not None and start - reached >= 3 * US:
            gaps.append(start - US)
        reached = end if reached is None else max(reached, end)
    return gaps[len(gaps) // 2] if gaps else None
