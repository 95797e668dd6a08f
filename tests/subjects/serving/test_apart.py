"""Prefill and decode on servers of their own: one story of each request over both recordings."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.errors import MissingDataError
from synth_serving.apart import serve_apart, write_apart

REAL = Path(__file__).parent / "servers_apart"
PARTS = ("prefill_ns", "transfer_ns", "decode_ns", "delivery_ns")


@pytest.fixture(scope="module")
def real_servers() -> sightline.Session:
    """Two real ones (servers_apart/README.md): without Python's stacks no transfer shows."""
    return sightline.open(
        *(str(REAL / f"{side}.rank0.pt.trace.json.gz") for side in ("prefill", "decode")),
        str(REAL / "client.json"),
    )


def test_real_servers_parts_are_the_clients_latency(real_servers: sightline.Session) -> None:
    rows = real_servers.ask("request_story")
    client = json.loads((REAL / "client.json").read_text())
    told = [round((one["end"] - one["start"]) * 1e9) for one in client]
    assert rows["latency_ns"].to_list() == pytest.approx(told, abs=1_000)
    assert (rows.select(pl.sum_horizontal(PARTS)).to_series() == rows["latency_ns"]).all()
    assert ((rows["told_pct"] - 100).abs() < 2).all()
    # One machine, one clock: each event lies behind its cause as it was recorded.
    assert set(rows["prefill_offset_ns"]) == set(rows["decode_offset_ns"]) == {0}
    assert rows.select(pl.min_horizontal(PARTS)).to_series().min() > 0  # type: ignore[operator]
    assert set(rows["moved_by"]) == {"step that took it"}


def test_real_servers_tokens_are_the_clients(real_servers: sightline.Session) -> None:
    """Prompts on the one; on the other the end of each again, which makes its first token."""
    sums = real_servers.ask("engine_steps").group_by("rank").agg(
        pl.col("prefill_requests", "prefill_tokens", "decode_tokens").sum()
    )  # fmt: skip
    client = json.loads((REAL / "client.json").read_text())
    prompts, answers = (sum(one[name] for one in client) for name in ("ptok", "n"))
    again = sum((one["ptok"] - 1) % 32 + 1 for one in client)  # blocks of 32 are moved
    assert sums.sort("rank").rows() == [
        (0, len(client), prompts, 0),
        (1, len(client), again, answers - len(client)),
    ]


def test_a_real_decode_server_waits_for_prompts(real_servers: sightline.Session) -> None:
    """They are computed elsewhere meanwhile: nobody is there for its scheduler."""
    gaps = real_servers.ask("engine_steps").filter(pl.col("rank") == 1)
    parts = gaps.select("no_request_ns", "in_step_ns", "scheduler_ns", "unclear_ns").sum().row(0)
    assert sum(parts) == gaps["gap_ns"].sum() == 2_354_616_731
    assert parts[0] == 1_864_698_370
    assert parts[3] == 0


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


def test_a_prompt_that_overtakes_another_has_its_own_step(tmp_path: Path) -> None:
    """A proxy's threads may swap two that are sent at once: their numbers of tokens tell."""
    apart = serve_apart(random.Random(9))
    asked = apart.decode.requests
    for one, other in zip(asked[::4], asked[1::4], strict=True):
        other.arrival_ns = one.arrival_ns - 1_000  # sent first, and computed behind the other
    rows = sightline.open(*map(str, write_apart(apart, tmp_path))).ask("request_story")
    done = (rows["sent_ns"] + rows["prefill_ns"]).to_list()
    swapped = sorted(range(len(asked)), key=lambda n: asked[n].arrival_ns)
    for place, number in enumerate(swapped):
        told = done[place] - done[0]
        assert told == pytest.approx(apart.prefilled_ns[number] - apart.prefilled_ns[swapped[0]],
                                     abs=2_000)  # fmt: skip


def test_transfers_are_listed(tmp_path: Path) -> None:
    apart = serve_apart(random.Random(5))
    run = sightline.open(*map(str, write_apart(apart, tmp_path)))
    moves = run.ask("kv_transfers")
    assert moves["duration_ns"].to_list() == [end - begin for begin, end in apart.transfers]
    assert set(moves["direction"]) == {"in"}
    assert (moves["exposed_ns"] <= moves["duration_ns"]).all()


def test_who_waits_for_the_other_server_has_no_scheduler_to_blame(tmp_path: Path) -> None:
    """While a prompt is computed and moved, the decode server has nothing to do, and vice versa."""
    run = sightline.open(*map(str, write_apart(serve_apart(random.Random(4)), tmp_path)))
    gaps = run.ask("engine_steps").select("gap_ns", "no_request_ns", "scheduler_ns", "unclear_ns")
    assert gaps["scheduler_ns"].sum() == 0
    assert gaps["unclear_ns"].sum() > gaps["gap_ns"].sum() / 2
    with pytest.raises(MissingDataError, match="two servers"):
        run.ask("request_time")


def test_one_server_alone_has_no_such_story(tmp_path: Path) -> None:
    apart = serve_apart(random.Random(6))
    prefill, decode, client = map(str, write_apart(apart, tmp_path))
    with pytest.raises(MissingDataError, match="not apart"):
        sightline.open(prefill, client).ask("request_story")
    with pytest.raises(MissingDataError, match="no transfer"):
        sightline.open(prefill).ask("kv_transfers")
    assert decode


@pytest.mark.parametrize("side", [0, 1])
def test_numbers_that_cannot_be_are_refused(side: int, tmp_path: Path) -> None:
    """A step of a trillion requests takes no trillion of anything here."""
    paths = write_apart(serve_apart(random.Random(3)), tmp_path)
    many = "999999999999(999999999999)"
    text = re.sub(r"(context|generation)_[1-9]\d*\(\d+\)", rf"\1_{many}", paths[side].read_text())
    paths[side].write_text(text)
    with pytest.raises(MissingDataError, match="not the client's"):
        sightline.open(*map(str, paths)).ask("request_story")


def test_requests_of_another_load_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    prefill, decode, _ = write_apart(serve_apart(random.Random(7)), tmp_path / "a")
    other = write_apart(serve_apart(random.Random(8), 30), tmp_path / "b")[-1]
    with pytest.raises(MissingDataError, match="not the client's"):
        sightline.open(str(prefill), str(decode), str(other)).ask("request_story")
