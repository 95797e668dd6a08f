"""Counters: values over time, and what they say of each GPU in all."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.core.page.series import make_counter_blocks, note_left_out
from sightline.errors import MissingDataError
from sightline.subjects.devices.use import summarize_use

PANEL = Panel("counters", "Counters", 110)


def data(view: View) -> list[Block]:
    """A table of GPUs, what happened to them, and one plot for each metric and device."""
    found = make_counter_blocks(view)
    if not found:
        why = "no counter was recorded over time"
        if view.run.rows("counters"):
            why = "the counters have no time on the timeline's clock (sightline sql has them)"
        raise MissingDataError("no counters", why=why)
    found = [*_make_tables(view), *found]
    more = note_left_out(view)
    if more:
        found.append(blocks.make_text(f"{more} more series are in the recording: sightline sql."))
    return found


def _make_tables(view: View) -> list[Block]:
    """GPUs and events, as on the first screen of a terminal."""
    found = []
    use = summarize_use(view.run)
    if use["devices"]:
        columns = registry.load("analyses", "device_use").ANALYSIS.columns
        found.append(blocks.make_table("GPUs", view.run.ask("device_use"), columns))
    if use["events"]:
        events = view.run.table("device_events").sort("time_ns")
        columns = registry.load("tables", "device_events").TABLE.columns
        found.append(
            blocks.make_table(
                "What happened", events, columns, origin_ns=view.span[0], hide=["recording_id"]
            )
        )
    return found
