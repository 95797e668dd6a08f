"""Goodput: requests with round numbers, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.errors import MissingDataError, RequestError
from sightline.subjects.serving.goodput import (
    Promise,
    list_promises,
    measure_goodput,
    measure_sending,
)
from support.traces import kernel, opened

MS = 10**6
COLUMNS = ("start_ns", "end_ns", "ttft_ns", "latency_ns", "output_tokens", "status")


def make(*rows: tuple[int, int, int, str | None]) -> pl.DataFrame:
    """Requests one a second: time to the first token, whole latency (ms), tokens, status."""
    made = [
        (n * 1000 * MS, (n * 1000 + last) * MS, first * MS, last * MS, tokens, status)
        for n, (first, last, tokens, status) in enumerate(rows)
    ]
    return pl.DataFrame(made, schema=COLUMNS, orient="row")


def test_who_is_in_time_is_good() -> None:
    """Of four in four seconds: one good, one late, one slow (50 ms a token), one that failed."""
    served = make(
        (100, 500, 11, None), (300, 700, 11, None), (100, 600, 11, None), (100, 1000, 11, "failed")
    )
    told = measure_goodput(served, Promise("", 200, 45, ""))
    assert told == (4, 1, 0.25, 11 / 4, 2, 2)


def test_loads_on_clocks_of_their_own_are_added_up() -> None:
    """One counts from the machine's start, one from 1970: no load lasts for years."""
    one = make((100, 500, 11, None), (100, 500, 11, None))
    other = one.with_columns(pl.col("start_ns", "end_ns") + 1_795_689_585_379_187_712)
    both = pl.concat([other, one])
    assert measure_sending(one) == 1500 * MS
    assert measure_sending(both) == 2 * 1500 * MS
    assert measure_goodput(both, Promise("", 200, 45, "")).requests_per_s == 4 / 3
    assert measure_sending(one.clear()) == 0


def test_a_single_token_has_no_further_ones() -> None:
    told = measure_goodput(make((100, 1000, 1, None)), Promise("", 100, 1, ""))
    assert (told.good, told.tpot_failed) == (1, 0)


def test_without_a_promise_all_are_good() -> None:
    told = measure_goodput(make((900, 9000, 2, None)), Promise("", None, None, ""))
    assert told.good == 1


def test_published_promises(tmp_path: Path) -> None:
    """450 ms and 40 ms a token are MLPerf's for interactive Llama 2: one of two keeps them."""
    rows = [
        {"i": 0, "start": 100.0, "ttft": 0.4, "itl": [0.03, 0.05], "end": 100.48, "n": 3},
        {"i": 1, "start": 101.0, "ttft": 0.5, "itl": [0.03, 0.03], "end": 102.0, "n": 3},
    ]
    path = tmp_path / "client.json"
    path.write_text(json.dumps(rows))
    found = {r["promise"]: r for r in sightline.open(str(path)).ask("goodput").to_dicts()}
    assert len(found) == len(list_promises())
    interactive = found["MLPerf Llama-2-70B interactive"]
    assert (interactive["good"], interactive["ttft_failed"]) == (1, 1)
    assert interactive["goodput"] == pytest.approx(0.5)
    conversational = found["MLPerf Llama-2-70B conversational"]
    assert conversational["good"] == 1  # 250 ms a token are too slow for it
    assert conversational["tpot_failed"] == 1


def test_your_own_promise_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "client.json"
    row = {"i": 0, "start": 100.0, "ttft": 0.4, "itl": [0.03, 0.05], "end": 100.48, "n": 3}
    path.write_text(json.dumps([row, {**row, "i": 1, "ttft": 0.1}]))
    run = sightline.open(str(path))
    first = run.ask("goodput", ttft_ms=200).row(0, named=True)
    assert (first["promise"], first["good"], first["tpot_ms"]) == ("yours", 1, None)
    with pytest.raises(RequestError, match="above 0"):
        run.ask("goodput", tpot_ms=-1)


def test_other_recordings_have_none(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError):
        opened(tmp_path, [kernel("k", 0, 9)]).ask("goodput")
