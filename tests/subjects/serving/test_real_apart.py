"""A real vLLM that prefills and one that decodes, joined into one story of each request.

Needs SIGHTLINE_VLLM, as test_real_server.py. `benchmarks/real_servers_apart.py` prints the table.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from support import real_apart as apart
from support import real_server as real

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timing,
    pytest.mark.skipif(
        not real.FOLDER, reason="SIGHTLINE_VLLM names no vLLM (scripts/vllm_cpu.py)"
    ),
]
REQUESTS, CLIENTS = 24, 4
WITHIN_PCT = 2.0


@pytest.mark.parametrize("with_stack", [False, True], ids=["plain", "with-stack"])
def test_the_parts_are_the_clients_latency(with_stack: bool, tmp_path: Path) -> None:
    with apart.serve(tmp_path / "servers", with_stack=with_stack) as pair:
        apart.warm_up(pair, CLIENTS)
        paths = apart.record(pair, "recorded", apart.make_load(tmp_path, REQUESTS, CLIENTS))
        moved, alone, other = ask_both(pair)
    # What was moved is what a server computes by itself, and counts: another beginning shows.
    assert moved == pytest.approx(alone, abs=0.01)
    assert moved != pytest.approx(other, abs=0.01)
    run = apart.open_both(paths)
    rows = run.ask("request_story")
    assert rows.height == REQUESTS
    parts = ("prefill_ns", "transfer_ns", "decode_ns", "delivery_ns")
    assert (rows.select(pl.sum_horizontal(parts)).to_series() == rows["latency_ns"]).all()
    assert ((rows["told_pct"] - 100).abs() <= WITHIN_PCT).all()
    assert rows.item(0, "prefill_offset_ns") == rows.item(0, "decode_offset_ns") == 0


def ask_both(pair: apart.Pair) -> list[list[float]]:
    """A prompt through both servers, by the decode server alone, and one that begins otherwise."""
    end = "the same end of each prompt, of some blocks of keys and values. " * 2
    prompt, other = (2 * "one beginning, " + end, 2 * "anything else: " + end)
    found = []
    for url, text in ((pair.url, prompt), (pair.decode.url, prompt), (pair.decode.url, other)):
        pair.forget()
        found.append(apart.get_likelihoods(url, text))
    return found
