"""The peak without a kind or a place: all events gone through again."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

import sightline
from sightline.subjects.memory.allocations import find_peaks_without
from support import snapshots, traces
from support.snapshots import opened
from support.training import train


def test_training_without_each_kind(tmp_path: Path) -> None:
    rows = opened(tmp_path, train()).ask("memory_what_if").filter(pl.col("of") == "kind")
    after = dict(rows.select("without", "after_bytes").rows())
    # Without state: 100 + 40 + 100. Without gradients: 100 + 200 + 40 + 60. Without activations:
    # 100 + 200 + 100, and the optimizer's scratch of 1.
    assert after == {
        "optimizer state": 240,
        "gradient": 400,
        "parameter": 340,
        "activation": 401,
    }


DRAWN = st.tuples(st.integers(0, 30), st.integers(1, 30), st.integers(1, 9), st.booleans())


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30), st.integers(1, 9), st.booleans()))
)
def test_as_a_walk_over_all_moments(drawn: list[tuple[int, int, int, bool]]) -> None:
    blocks = [(start, start + length, size, out) for start, length, size, out in drawn]
    moments = range(62)

    def held(t: int, *, all_of_them: bool) -> int:
        return sum(s for a, b, s, out in blocks if a <= t < b and (all_of_them or not out))

    sums = pl.DataFrame(
        {"event": list(moments), "allocated_bytes": [held(t, all_of_them=True) for t in moments]}
    )
    without = pl.DataFrame(
        [(a, b, s, 0 if out else None) for a, b, s, out in blocks],
        schema=dict.fromkeys(("allocated", "released", "bytes", "group"), pl.Int64),
        orient="row",
    )
    expected = max(held(t, all_of_them=False) for t in moments)
    assert find_peaks_without(sums, without, 1) == [expected]
    # Between the events of another memory, and with a group that has no blocks.
    apart = [pl.col(name) * 3 + 1 for name in ("allocated", "released")]
    sums, without = sums.with_columns(pl.col("event") * 3 + 1), without.with_columns(apart)
    whole = max(held(t, all_of_them=True) for t in moments)
    assert find_peaks_without(sums, without, 2) == [expected, whole]


def test_a_block_of_unknown_size_stays() -> None:
    sums = pl.DataFrame({"event": [0, 1], "allocated_bytes": [50, 20]})
    blocks = pl.DataFrame({"allocated": [0, 0], "released": [1, None], "bytes": [30, None]})
    assert find_peaks_without(sums, blocks.with_columns(group=0), 1) == [20]


def test_what_was_there_before_is_part_of_what_expandable_segments_hold(tmp_path: Path) -> None:
    told = {"Device Type": 1, "Device Id": 0, "Total Reserved": 64 << 20}
    events = [
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1,
         "ts": at, "args": {**told, "Addr": 4096, "Bytes": size, "Total Allocated": total}}
        for at, size, total in ((1, 1 << 20, 33 << 20), (2, -(1 << 20), 32 << 20))
    ]  # fmt: skip
    run = traces.opened(tmp_path, [traces.kernel("a", 0, 5), *events])
    row = run.ask("memory_what_if").filter(pl.col("of") == "allocator").row(0, named=True)
    assert (row["before_bytes"], row["after_bytes"]) == (64 << 20, 34 << 20)


def test_a_snapshot_beside_a_trace_changes_neither(tmp_path: Path) -> None:
    """A profiler says what is allocated after each event, an allocator's history does not."""
    told = {"Device Type": 1, "Device Id": 0, "Total Reserved": 64 << 20}
    events = [
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1,
         "ts": at, "args": {**told, "Addr": 4096, "Bytes": size, "Total Allocated": total}}
        for at, size, total in ((1, 1 << 20, 33 << 20), (2, -(1 << 20), 32 << 20))
    ]  # fmt: skip
    trace = traces.opened(tmp_path, [traces.kernel("a", 0, 5), *events], "trace.json")
    history = [
        snapshots.entry("segment_alloc", 1 << 30, 4 << 20, 1),
        snapshots.alloc(1 << 30, 3 << 20, 2),
    ]
    memory = snapshots.opened(tmp_path, snapshots.snapshot(history, []))
    both = sightline.open(str(tmp_path / "trace.json"), str(tmp_path / "snapshot.pickle"))
    for name in ("memory_peak", "memory_what_if"):
        alone = [run.ask(name).drop("rank", "event", strict=False) for run in (trace, memory)]
        together = both.ask(name).drop("rank", "event", strict=False)
        assert together.sort(pl.all()).rows() == pl.concat(alone).sort(pl.all()).rows()
