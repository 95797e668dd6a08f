"""Steps: what each step cost, stacked."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.core.text import make_printable
from sightline.errors import MissingDataError

PANEL = Panel("steps", "Steps", 90)

MAX_BARS = 200


def data(view: View) -> list[Block]:
    """A bar per step, and the table of the analysis `steps`."""
    if not view.run.rows("host_ops"):
        raise MissingDataError("no steps", why="no CPU range, so no marked step")
    frame = view.run.ask("steps")
    if frame.is_empty():
        raise MissingDataError("no steps", why="none is marked or found: call prof.step()")
    analysis = registry.load("analyses", "steps").ANALYSIS
    found = []
    drawn = frame.drop_nulls("device_id").head(MAX_BARS)
    if drawn.height:
        ranks = frame.select("rank", "device_id").n_unique() > 1
        alike = not ranks and drawn.height > 1 and drawn.get_column("step").n_unique() == 1
        labels = [
            (f"{number} · " if alike else "")
            + make_printable(r["step"])
            + (f" · rank {r['rank']}" if ranks else "")
            for number, r in enumerate(drawn.select("rank", "step").iter_rows(named=True), 1)
        ]
        found.append(
            blocks.make_shares("Time per step", drawn, labels, whole="duration_ns", same_scale=True)
        )
        if drawn.height < frame.height:
            found.append(blocks.make_text(f"The first {MAX_BARS} of {frame.height:,} are drawn."))
    found += [blocks.make_text(note) for note in analysis.notes]
    found.append(
        blocks.make_table(
            "Steps",
            frame,
            analysis.columns,
            origin_ns=view.span[0],
            action="range",
            more="sightline stats steps",
        )
    )
    return found
