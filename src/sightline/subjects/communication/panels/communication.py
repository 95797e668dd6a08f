"""Communication: how much of it is hidden behind compute, and what it is, by group and size."""

from __future__ import annotations

import polars as pl

from sightline.core import registry
from sightline.core.model.columns import duration
from sightline.core.model.tables import load_table
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError
from sightline.timeline.classes import is_communication

PANEL = Panel("communication", "Communication", 80)
# Title, analysis, and the column that it is sorted by, where there are ranks to compare.
_ACROSS_RANKS = (
    ("Who waits for whom", "collective_waits", "added_ns"),
    ("Bandwidth by size", "bandwidth_by_size", None),
    ("What could be matched across ranks", "collective_matching", "kernels"),
    ("The ranks' clocks", "clocks", None),
    ("Collectives that ranks waited for most", "collective_times", "waited_ns"),
)
_LONGEST = 24


def data(view: View) -> list[Block]:
    """Overlap per device; sums by group and size; kernels by name; the longest collectives."""
    if not view.has_device:
        raise MissingDataError("no communication", why="no device operation")
    overlap = view.run.ask("overlap")
    if not overlap.filter(pl.col("comm_ns") > 0).height:
        raise MissingDataError("no communication", why="no communication kernel in the window")
    declared = registry.load("analyses", "overlap").ANALYSIS
    kernels = registry.load("analyses", "kernels").ANALYSIS
    summed = registry.load("analyses", "communication").ANALYSIS
    names = view.run.ask("kernels").filter(is_communication(pl.col("name")))
    found = [
        blocks.make_table("Hidden behind compute", overlap, declared.columns,
                     hide=("copy_ns", "copy_overlap_ns", "copy_overlap_pct"),
                     more="sightline stats overlap"),
        *(blocks.make_text(note) for note in declared.notes),
        blocks.make_table("By group and size", view.run.ask("communication"), summed.columns,
                     sort="kernel_ns", more="sightline stats communication"),
        *(blocks.make_text(note) for note in summed.notes),
        blocks.make_table("Communication kernels", names, kernels.columns, action="kernel",
                     more="sightline stats kernels"),
    ]  # fmt: skip
    for title, name, sort in _ACROSS_RANKS:
        if view.run.table("recordings").height < 2 and name != "bandwidth_by_size":
            continue
        answer = view.run.ask(name)
        if answer.height:
            if name == "collective_times":
                answer = answer.sort("waited_ns", descending=True)
            columns = registry.load("analyses", name).ANALYSIS.columns
            found.append(
                blocks.make_table(
                    title, answer, columns, sort=sort, origin_ns=view.span[0],
                    action="range" if "end_ns" in answer.columns else None,
                    heat=("added_ns", "waited_ns") if name == "collective_waits" else (),
                    hide=("op", "skew_uncertainty_ns") if name == "collective_times" else (),
                    limit=_LONGEST if name == "collective_times" else blocks.MAX_ROWS,
                    more=f"sightline stats {name}",
                )
            )  # fmt: skip
    if view.run.rows("collectives"):
        found.append(_collectives(view))
    return found


def _collectives(view: View) -> Block:
    """Each collective with its meaning and its time."""
    meant = load_table("collectives").columns
    ops = load_table("device_ops").columns
    taken = {"rank", "op", "group", "group_size", "dtype", "bytes_in", "bytes_out", "peer"}
    times = {"start_ns", "end_ns", "stream_id"}
    rows = (
        view.run.table("collectives")
        .select("device_op_id", *taken)
        .join(view.run.table("device_ops").select("device_op_id", *times), on="device_op_id")
        .with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
        .sort("duration_ns", "device_op_id", descending=[True, False])
    )
    columns = [c for c in meant if c.name in taken]
    columns.append(duration("duration_ns", "how long its kernel ran"))
    columns += [c for c in ops if c.name in times]
    return blocks.make_table(
        "Collectives, the longest first",
        rows,
        columns,
        origin_ns=view.span[0],
        action="range",
        more="sightline tables",
    )
