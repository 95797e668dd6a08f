"""The instruction with most excess, and which one where several have as much."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl

from sightline.rules.ncu._uncoalesced import find_worst_places

NO_ROW = {"rank": 0, "recording_id": 0, "kernel_id": 1, "function": "f", "file": None, "line": None}


class Frames:
    """As much of a run as is asked."""

    def __init__(self, **tables: list[dict[str, Any]]) -> None:
        self.tables = {n: pl.DataFrame(rows) for n, rows in tables.items()}

    def scan(self, name: str) -> pl.LazyFrame:
        return self.tables[name].lazy()


def places(excess: dict[int, float], seed: int = 0) -> dict[int, str]:
    code = [{**NO_ROW, "address": a, "offset": a - 100, "opcode": "LDG"} for a in excess]
    values = [
        {"kernel_id": 1, "instance_id": address, "metric": metric, "value": value}
        for address, more in excess.items()
        for metric, value in (("done", 10.0 + more), ("needed", 10.0))
    ]
    Random(seed).shuffle(values)
    run: Any = Frames(instructions=code, kernel_metrics=values)
    return find_worst_places(run, "done", "needed")


def test_the_worst() -> None:
    assert places({116: 1.0, 132: 5.0, 148: 2.0}) == {1: "LDG at byte 32"}
    assert places({116: 0.0}) == {}


def test_of_equals_the_first_in_the_code() -> None:
    equals = dict.fromkeys(range(116, 1_000, 16), 3.0)
    assert {places(equals, seed)[1] for seed in range(20)} == {"LDG at byte 16"}
