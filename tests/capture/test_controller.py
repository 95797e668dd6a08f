"""Clocks of nodes against ours, and ranks moved from theirs onto ours."""

from __future__ import annotations

import json
import time
from typing import Any

import polars as pl
import pytest

from sightline.capture.asking import CLOCKS, compare_times
from sightline.capture.client import Address, Answer, Client
from sightline.capture.controller import Asked, look_around, move_onto
from sightline.capture.relay import ask_in_turn
from sightline.errors import InputError
from sightline.fleet.rank_file import RankFile
from sightline.fleet.reduce import Rank


class SkewedClient(Client):
    """A node whose clock is ahead, and whose answers take some time on the way back."""

    def __init__(self, ahead_ns: int, slow_s: float = 0.0, data: Any = None) -> None:
        super().__init__(Address("skewed"))
        self._ahead_ns, self._slow_s, self._data = ahead_ns, slow_s, data

    def ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        told = time.time_ns() + self._ahead_ns
        time.sleep(self._slow_s)
        data = {"time_ns": told} if self._data is None else self._data
        return Answer(200, json.dumps(data).encode())


@pytest.mark.parametrize("ahead_ns", [50_000_000, -50_000_000])
def test_a_skewed_clock(ahead_ns: int) -> None:
    """What is not known of it is said: an answer of 20 ms leaves 10 ms either way."""
    told = ask_in_turn(SkewedClient(ahead_ns, slow_s=0.02), CLOCKS)
    offset, uncertainty = compare_times("skewed", told)
    assert uncertainty >= 10_000_000
    assert abs(offset - ahead_ns) <= uncertainty


def test_a_clock_that_may_as_well_be_ours_is_not_moved() -> None:
    client = SkewedClient(0)
    assert Asked(client, "n", offset_ns=900, uncertainty_ns=1000).ahead_ns == 0
    assert Asked(client, "n", offset_ns=-1100, uncertainty_ns=1000).ahead_ns == -1100


@pytest.mark.parametrize("data", [[], {}, {"time_ns": "now"}, "x"])
def test_what_is_no_daemon(data: Any) -> None:
    with pytest.raises(InputError, match="not a daemon of sightline"):
        compare_times("skewed", ask_in_turn(SkewedClient(0, data=data), CLOCKS))
    (node,) = look_around([SkewedClient(0, data=data)])
    assert "not a daemon of sightline" in str(node.problem)
    json.dumps(node.problem)


def test_ranks_are_moved_onto_our_clock() -> None:
    rows = pl.DataFrame({"start_ns": [1000], "end_ns": [1500], "segment_ns": [40]})
    (name, rank) = move_onto(RankFile([("x", Rank(0, rows, 900, 1600, 100, {}))], []), 50).ranks[0]
    assert (name, rank.begin_ns, rank.end_ns, rank.tail_ns) == ("x", 850, 1550, 100)
    assert rank.rows.row(0) == (950, 1450, 40)
