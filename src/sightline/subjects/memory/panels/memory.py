"""Memory: what the allocator held over time, what fills the peak, what is free.

And what the programs that XLA compiled take.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.core.page.series import make_memory_blocks
from sightline.core.units import format_bytes, format_several
from sightline.errors import MissingDataError
from sightline.subjects.memory.panels._memory_picture import make_pictures
from sightline.subjects.memory.panels._segments import make_segments

PANEL = Panel("memory", "Memory", 100, is_plain=True)

_PICTURES = 4  # devices with a picture of their own
_ROWS = 200


def data(view: View) -> list[Block]:
    """Pictures of each device's memory, tables of the peak, the lines over time."""
    run = view.run
    if not any(map(run.rows, ("memory_events", "memory_segments", "program_buffers"))):
        raise MissingDataError(
            "no memory", why="no allocation was recorded: profile_memory=True records them"
        )
    made: list[Block] = []
    if run.rows("memory_events"):
        made += _list_peaks(view)
    made += make_memory_blocks(view)
    if run.rows("memory_segments"):
        made.append(_make_segments(view))
        for name in ("fragmentation", "pinned_segments"):
            made.append(_make_table(view, name))
    if run.rows("program_buffers"):
        made += [_make_table(view, name) for name in ("program_memory", "program_peak_buffers")]
    if not run.rows("memory_events"):
        return made
    moved = pl.col("action").is_in(["alloc", "free"])
    count = run.scan("memory_events").filter(moved).select(pl.len()).collect().item()
    return [
        *made,
        blocks.make_text(f"{format_several(count, 'allocation')} and frees were recorded."),
    ]


def _list_peaks(view: View) -> Iterator[Block]:
    peaks = view.run.ask("memory_peak").sort("allocated_bytes", descending=True)
    options = []
    for peak in peaks.head(_PICTURES).iter_rows(named=True):
        place = "host" if peak["device_id"] is None else f"GPU {peak['device_id']}"
        count = f", in {format_several(peak['blocks'], 'block')}" if peak["blocks"] else ""
        yield blocks.make_text(
            f"{place}: at most {format_bytes(peak['allocated_bytes'])} allocated{count}.", "lead"
        )
        if not peak["blocks"]:  # without addresses no block can be followed
            continue
        for label, picture in make_pictures(view.run, peak, view.span[0]):
            options.append(
                {"label": f"rank {peak['rank']} · {place} · {label}", "blocks": [picture]}
            )
    if options:
        yield {"kind": "choice", "label": "Blocks over time", "options": options}
    for name in ("peak_blocks", "memory_what_if", "smaller_batch", "memory_leaks"):
        if peaks.height and view.run.ask(name).height:
            yield _make_table(view, name)


def _make_segments(view: View) -> Block:
    """The segments of the devices that hold most."""
    held = view.run.table("memory_segments").group_by("rank", "device_id").agg(pl.sum("bytes"))
    held = held.sort("bytes", "rank", "device_id", descending=[True, False, False]).head(_PICTURES)
    options = []
    for rank, device, size in held.rows():
        place = "host" if device is None else f"GPU {device}"
        label = f"rank {rank} · {place} · {format_bytes(size)} in segments, at the end"
        options.append({"label": label, "blocks": [make_segments(view.run, rank, device)]})
    return {"kind": "choice", "label": "Segments of the allocator", "options": options}


def _make_table(view: View, name: str) -> Block:
    declared = registry.load("analyses", name).ANALYSIS
    frame = view.run.ask(name)
    return blocks.make_table(
        declared.question,
        frame.head(_ROWS),
        declared.columns,
        origin_ns=view.span[0],
        hide=("stack_id", "segment_id"),
        more=f"sightline stats {name}",
    )
