"""Prefill and decode on servers of their own: one story of each request over both recordings."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sightline
from sightline.errors import MissingDataError
from synth_serving.apart import serve_apart, write_apart


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clock_ns", [0, 150_000_000, -42_000_000])
def test_the_parts_are_the_clients_latency(seed: int, clock_ns: int, tmp_path: Path) -> None:
    """To 2 %, whatever the decode server's clock shows; to 2 us for each part."""
    apart = serve_apart(random.Random(seed))
    paths = write_apart(apart, tmp_path, clock_ns)
    rows = sightline.open(*map(str, paths)).ask("request_story").to_dicts()
    assert len(rows) == len(apart.decode.requests)
    for row, request, (_, moved), done in zip(
        rows, apart.decode.requests, apart.transfers, apart.prefilled_ns, strict=True
    ):
        latency = request.token_ns[-1] - request.arrival_ns
        assert row["latency_ns"] == pytest.approx(latency, abs=2_000)
        assert row["prefill_ns"] == pytest.approx(done - request.arrival_ns, abs=2_000)
        assert row["transfer_ns"] == pytest.approx(moved - done, abs=2_000)
        assert row["decode_ns"] == pytest.approx(request.token_ns[-1] - moved, abs=2_000)
        assert abs(row["told_pct"] - 100) < 2
        parts = ("prefill_ns", "transfer_ns", "decode_ns", "delivery_ns")
        assert sum(row[part] for part in parts) == row["latency_ns"]
        assert row["decode_offset_ns"] == pytest.approx(-clock_ns, abs=2_000)


def test_transfers_are_listed(tmp_path: Path) -> None:
    apart = serve_apart(random.Random(5))
    run = sightline.open(*map(str, write_apart(apart, tmp_path)))
    moves = run.ask("kv_transfers")
    assert moves["duration_ns"].to_list() == [end - begin for begin, end in apart.transfers]
    assert set(moves["direction"]) == {"in"}
    assert (moves["exposed_ns"] <= moves["duration_ns"]).all()


def test_one_server_alone_has_no_such_story(tmp_path: Path) -> None:
    apart = serve_apart(random.Random(6))
    prefill, decode, client = map(str, write_apart(apart, tmp_path))
    with pytest.raises(MissingDataError, match="not apart"):
        sightline.open(prefill, client).ask("request_story")
    with pytest.raises(MissingDataError, match="no transfer"):
        sightline.open(prefill).ask("kv_transfers")
    assert decode


def test_requests_of_another_load_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    prefill, decode, _ = write_apart(serve_apart(random.Random(7)), tmp_path / "a")
    other = write_apart(serve_apart(random.Random(8), 30), tmp_path / "b")[-1]
    with pytest.raises(MissingDataError, match="not the client's"):
        sightline.open(str(prefill), str(decode), str(other)).ask("request_story")
