"""Tables for a person: what fits the window, and heads without units."""

import polars as pl

from sightline.core.model.columns import Column, duration, number, pct, text
from sightline.views.tables import Reading, write


def test_a_single_row_that_is_too_wide_stands_upright() -> None:
    """So that no column is left out: what answers is not hidden in a narrow window."""
    columns = tuple(Column(f"value_{n}_ns", pl.Int64, "v", unit="ns") for n in range(12))
    frame = pl.DataFrame({c.name: [1_000 * n] for n, c in enumerate(columns)})
    lines = write(frame, columns, "table", 0, Reading(width=80)).decode().splitlines()
    assert lines[3].split() == ["value_3", "3.000", "µs"]
    assert len(lines) == 12


def test_a_head_has_no_unit_over_cells_that_have_their_own() -> None:
    columns = (Column("Total Time (ns)", pl.Int64, "v", unit="ns"),)
    frame = pl.DataFrame({"Total Time (ns)": [808_200_000]})
    assert write(frame, columns, "table", 0).decode().split("\n")[0] == "Total Time"
    assert b"(ns)" in write(frame, columns, "csv", 0)


def test_the_sum_stays_where_there_is_no_room_for_all() -> None:
    columns = (
        text("cause", "why"),
        number("gaps", "how many"),
        duration("total_ns", "in all"),
        pct("window_pct", "% of the window"),
        duration("longest_ns", "the longest"),
        text("host_op", "what the host was in"),
    )
    rows = {
        "cause": ["data_loading", "micro_gap"],
        "gaps": [4, 90],
        "total_ns": [11_070_000, 81_000],
        "window_pct": [63.5, 0.5],
        "longest_ns": [2_820_000, 900],
        "host_op": ["enumerate(DataLoader)", "cudaLaunchKernel"],
    }
    shown = write(pl.DataFrame(rows), columns, "table", 0, Reading(width=62)).decode()
    assert "11.07 ms" in shown
    assert "no room for longest" in shown
