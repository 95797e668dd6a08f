"""Events that stand in the page as differences from what was foreseen come back exactly."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.algebra.lanes import assign_lanes, thin_events
from sightline.core.page.pack import Packed
from sightline.views.html.timeline import foresight
from sightline.views.html.timeline.foresight import ABOVE, CALL, PREVIOUS, QUEUE, pack_events
from sightline.views.html.view import PageView
from support.html_pages import read_events
from support.simulated import simulated

TIMES = st.tuples(st.integers(0, 60), st.integers(0, 25))
# Track (0 and 1 are streams, 2 and 3 threads, 4 ranges), level, start and length, name, call.
ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), TIMES, st.integers(0, 3), st.integers(0, 50)),
    min_size=1,
    max_size=60,
)
KINDS = ["stream", "stream", "thread", "thread", "ranges"]


def lay_out(rows: list[tuple]) -> pl.DataFrame:
    events = pl.DataFrame(
        [
            (track, level if track in (2, 3) else 0, start, start + length, name)
            for track, level, (start, length), name, _ in rows
        ],
        schema=dict.fromkeys(["track", "level", "start_ns", "end_ns", "name"], pl.Int64),
        orient="row",
    )
    laid = assign_lanes(events)
    calls = [i for i, track in enumerate(laid.get_column("track")) if track in (2, 3)]
    # What a call launched is anywhere, also before it; some operations have no call.
    link = [
        calls[rows[i][4] % len(calls)] + 1 if track < 2 and calls and rows[i][4] % 5 else 0
        for i, track in enumerate(laid.get_column("track"))
    ]
    return laid.with_columns(link=pl.Series(link, dtype=pl.Int64))


def read_back(laid: pl.DataFrame) -> tuple[pl.DataFrame, dict, list[int]]:
    packed = Packed()
    columns, bases = pack_events(laid, KINDS, packed)
    lanes = laid.group_by("track", "lane", maintain_order=True).agg(n=pl.len())
    block = {
        "columns": columns,
        "bases": bases,
        "lanes": lanes.to_dict(as_series=False),
        "tracks": [{"kind": kind} for kind in KINDS],
    }
    found = pl.DataFrame(read_events(block, bytes(packed.body)))
    return found, columns, bases


def compare(found: pl.DataFrame, laid: pl.DataFrame) -> None:
    for own, name in (("start", "start_ns"), ("end", "end_ns"), ("name", "name"), ("link", "link")):
        assert found.get_column(own).to_list() == laid.get_column(name).to_list(), name


@given(ROWS, st.sampled_from([1, 1_000]))
def test_events_come_back_exactly(rows: list[tuple], unit: int) -> None:
    laid = lay_out(rows).with_columns(pl.col("start_ns", "end_ns") * unit)
    found, columns, _ = read_back(laid)
    compare(found, laid)
    if unit > 1:
        assert all(columns[c].get("unit", 1_000) % unit == 0 for c in ("gap", "tail"))


@given(ROWS, st.integers(1, 30))
def test_marks_of_several_that_overlap_others_come_back(rows: list[tuple], limit: int) -> None:
    laid, _ = thin_events(lay_out(rows).with_columns(link=pl.lit(0, pl.Int64)), limit)
    found, _, _ = read_back(laid)
    compare(found, laid)


@given(ROWS)
def test_names_come_back_either_way(rows: list[tuple]) -> None:
    laid = lay_out(rows)
    for shorter in (min, max):  # as they are, or by their callers
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(foresight, "min", shorter, raising=False)
            found, _, _ = read_back(laid)
        compare(found, laid)


def test_what_a_start_is_counted_from_follows_from_how_streams_behave() -> None:
    calls = [(2, 0, (100 * i + i * i % 37, 10), 0, 0) for i in range(50)]
    at = {
        # As soon as the call ends, or when the kernel before it does.
        QUEUE: [max(100 * i, 130 * i) + 20 for i in range(50)],
        CALL: [100 * i + i * i % 37 + 45 for i in range(50)],
        PREVIOUS: [7 + 141 * i for i in range(50)],
    }
    chosen = {}
    for base, starts in at.items():
        kernels = [(0, 0, (start, 130 if base == QUEUE else 20), 1, 0) for start in starts]
        laid = lay_out(kernels + calls)
        link = pl.when(pl.col("track") == 0).then(pl.int_range(pl.len()) + 51).otherwise(0)
        laid = laid.with_columns(link=link)
        found, _, bases = read_back(laid)
        compare(found, laid)
        chosen[base] = bases[0]
    assert chosen[CALL] == CALL
    assert chosen[PREVIOUS] == PREVIOUS
    assert chosen[QUEUE] in (QUEUE, PREVIOUS)


def test_deep_nesting_is_cut_where_a_browser_would_run_out_of_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foresight, "MOST_NESTED", 20)
    depth = 25
    rows = [(2, level, (level, 10_000 - 2 * level), 0, 0) for level in range(depth)]
    laid = lay_out(rows)
    found, _, bases = read_back(laid)
    compare(found, laid)
    assert bases.count(PREVIOUS) == 2
    assert bases.count(ABOVE) == depth - 2


def test_the_timeline_of_a_program_comes_back() -> None:
    view = PageView(simulated("dataloader_starved").run)
    events = view.timeline.events
    lanes = events.group_by("track", "lane", maintain_order=True).agg(n=pl.len())
    block = {
        "columns": view.columns,
        "bases": view.bases,
        "tracks": view.timeline.tracks,
        "lanes": lanes.to_dict(as_series=False),
    }
    found = pl.DataFrame(read_events(block, bytes(view.packed.body)))
    compare(found, events)
    assert {ABOVE} < set(view.bases), "ranges within ranges, and others"
