"""iprof's tally: of THAPI's own tests of it, its intervals and what it adds up of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.core.model.run import Run
from support.ctf_traces import Bits, declare_events, write_trace

COMMON = (
    "event.context := struct { string hostname; uint64_t vpid; uint64_t vtid; uint64_t ts; "
    "uint64_t backend; };"
)
INTERVALS = [
    ("lttng:host", "string name; uint64_t dur; uint8_t err;"),
    ("lttng:traffic", "string name; uint64_t size; string metadata;"),
]
SUMS = (
    "event.context := struct { string hostname; uint64_t vpid; uint64_t vtid; string name; "
    "uint64_t min; uint64_t max; uint64_t total; uint64_t count; };"
)
AGGREGATES = [
    ("aggreg:host", "uint64_t backend; uint64_t err_count;"),
    ("aggreg:traffic", "uint64_t backend; string metadata;"),
]
NAME = "clEnqueueReadBuffer"


def tally(run: Run) -> list[tuple[Any, ...]]:
    columns = ("api", "name", "total_ns", "calls", "min_ns", "max_ns", "mean_ns", "errors")
    return run.ask("call_tally").select(columns).rows()


def intervals(folder: Path) -> Path:
    """xprof/tests/interval_to_aggreg.thapi_interval_text_pretty: the third call failed."""
    bits = Bits()

    def begin(number: int, ts: int) -> Bits:
        bits.integer(number, 8).integer(ts, 64).text("testhost")
        for value in (10, 1, ts, 2):
            bits.integer(value, 64)
        return bits.text(NAME)

    begin(1, 100).integer(400, 64).text("")
    for length, failed in ((10, 0), (100, 0), (10, 1)):
        begin(0, 101).integer(length, 64).integer(failed, 8)
    return write_trace(folder, declare_events(INTERVALS, context=COMMON), bits.bytes())


def test_intervals_become_the_aggregate_that_thapi_expects(tmp_path: Path) -> None:
    """interval_to_aggreg.bt_text_pretty: min 10, max 100, total 110, count 3, err_count 1."""
    run = sightline.open(str(intervals(tmp_path / "t")))
    assert tally(run) == [("opencl", NAME, 110, 3, 10, 100, 55, 1)]
    traffic = run.table("counters").select("source", "unit", "value").rows()
    assert traffic == [(NAME, "bytes", 400.0)]


def test_aggregates_are_read_though_they_have_no_time(tmp_path: Path) -> None:
    """aggreg_to_tally.thapi_aggreg_text_pretty, and the tally that its test expects of it."""
    bits = Bits()
    for number, size in ((0, 10), (1, 400)):
        bits.integer(number, 8).integer(0, 64).text("testhost").integer(10, 64).integer(1, 64)
        bits.text(NAME)
        for value in (size, size, size, 1, 2):
            bits.integer(value, 64)
        bits.integer(0, 64) if number == 0 else bits.text("")
    metadata = declare_events(AGGREGATES, context=SUMS).replace(
        "event.header := struct { uint8_t id; stamp timestamp; };",
        "event.header := struct { uint8_t id; uint64_t unused; };",
    )
    run = sightline.open(str(write_trace(tmp_path / "t", metadata, bits.bytes())))
    assert tally(run) == [("opencl", NAME, 10, 1, 10, 10, 10, 0)]
    sums = run.table("call_sums").select("kind", "pid", "tid", "name", "calls", "bytes").rows()
    assert sums == [("host", 10, 1, NAME, 1, None), ("traffic", 10, 1, NAME, 1, 400)]


@pytest.mark.parametrize(("code", "errors"), [(0, 0), (600, 0), (700, 1)])
def test_what_a_call_returns(tmp_path: Path, code: int, errors: int) -> None:
    """An error of CUDA, and one that says that work goes on."""
    query = "lttng_ust_cuda:cuEventQuery"
    calls = [(f"{query}_entry", ""), (f"{query}_exit", "uint32_t cuResult;")]
    bits = Bits().integer(0, 8).integer(5, 64).integer(1, 8).integer(9, 64).integer(code, 32)
    run = sightline.open(str(write_trace(tmp_path / "t", declare_events(calls), bits.bytes())))
    (row,) = run.ask("call_tally").to_dicts()
    assert (row["calls"], row["errors"], row["total_ns"]) == (1, errors, 0 if errors else 4)
