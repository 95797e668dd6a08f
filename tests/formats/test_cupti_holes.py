"""Recordings that left out API calls, or all, to keep within a budget: nothing rests on that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from sightline.core.model.declare import Quality
from sightline.diagnosis.gaps import find_own_gaps
from sightline.formats.nvidia.cupti.cost import list_costs
from sightline.formats.nvidia.cupti.holes import count_unlaunched

MS = 1_000_000


def windows(*stretches: tuple[int, int, int, int]) -> pl.DataFrame:
    """Begin and end in ms, level, whether anything was recorded."""
    return pl.DataFrame(
        [(a * MS, b * MS, level, on) for a, b, level, on in stretches],
        schema=["start", "end", "level", "is_on"],
        orient="row",
    ).with_columns(own_ns=pl.lit(0), cpu_ns=pl.lit(0), records=pl.lit(0), is_measured=pl.lit(0))


def work(called_ms: list[int | None], started_ms: list[int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Operations and the calls that launched them, where they were recorded."""
    calls = [at for at in called_ms if at is not None]
    host = pl.DataFrame(
        {"host_op_id": range(len(calls)), "start_ns": [at * MS for at in calls],
         "layer": ["runtime"] * len(calls)}
    )  # fmt: skip
    ids = iter(range(len(calls)))
    ops = pl.DataFrame(
        {"launch_id": [None if at is None else next(ids) for at in called_ms],
         "start_ns": [at * MS for at in started_ms]},
        schema={"launch_id": pl.Int64, "start_ns": pl.Int64},
    )  # fmt: skip
    return ops, host


def count(stretches: pl.DataFrame, tables: tuple[pl.DataFrame, pl.DataFrame]) -> tuple[int, int]:
    file: Any = SimpleNamespace(frame=lambda name: {"windows": stretches}[name])
    return count_unlaunched(file, *tables)


def test_work_of_a_hole_is_told_from_work_that_lost_its_launch() -> None:
    # Calls until 10 ms and from 20 ms on; what was launched in between runs until 24 ms.
    stretches = windows((0, 10, 0, 1), (10, 20, 1, 1), (20, 40, 0, 1))
    called = [1, None, 9, None, None, None, 21, None, 30]
    started = [2, 5, 11, 12, 19, 23, 24, 28, 31]
    assert count(stretches, work(called, started)) == (2, 3)


def test_a_hole_to_the_end() -> None:
    stretches = windows((0, 10, 0, 1), (10, 40, 2, 1))
    assert count(stretches, work([1, None, None], [2, 12, 39])) == (0, 2)
    assert count(windows((0, 40, 0, 1)), work([1, None, None], [2, 12, 39])) == (2, 0)


def test_a_recording_without_calls_has_lost_none() -> None:
    assert count(windows((0, 40, 1, 1)), work([None, None], [2, 12])) == (0, 0)


def test_the_limit_says_what_is_not_known() -> None:
    stretches = windows((0, 10, 0, 1), (10, 40, 1, 1))
    costs = list_costs(stretches, is_throttled=True, in_holes=31)
    (left_out,) = (q for q in costs if q.kind == "calls_left_out")
    assert left_out.text == (
        "API calls were recorded for 25.0 % of the time, to keep within the budget: what the host "
        "did for the rest of it is not known, nor what launched 31 GPU operations then"
    )
    assert isinstance(left_out, Quality) and left_out.severity == "warning"


def test_what_cupti_takes_inside_the_program_is_estimated() -> None:
    """It was said to be in no figure, while it was nearly all of the cost: 3.1 µs a launch."""
    stretches = windows((0, 1000, 0, 1))
    (cost,) = list_costs(stretches, is_throttled=True, launches=100_000)
    assert "3.1 µs a launch, for 100,000 launches 310.0 ms (31.0 % of the time)" in cost.text
    assert cost.remedy is not None and "--measure-cost" in cost.remedy
    (cost,) = list_costs(stretches, is_throttled=True)
    assert "a launch" not in cost.text


def test_gaps_of_a_recording_in_windows_are_not_the_programs() -> None:
    def run(kind: str) -> Any:
        made = SimpleNamespace(table=lambda _: pl.DataFrame({"kind": [kind]}))
        made.once = lambda make: make(made)
        return made

    own = find_own_gaps(run("recorded_in_windows"))
    assert own is not None and own.title == "Kernels recorded in windows"
    assert find_own_gaps(run("calls_left_out")) is None
