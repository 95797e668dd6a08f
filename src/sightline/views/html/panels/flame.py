"""The flame graph: all stacks, CPU and GPU, proportional to what they cost."""

from __future__ import annotations

from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.flames import html, timeline
from sightline.flames.build import build_stacks, choose_weight

PANEL = Panel("flame", "Flame graph", 50, is_plain=True)

# The report holds other things as well: a third of what a flame graph's own page may hold.
MAX_NODES = 20_000
# All weights of so many rows take as long as the rest of the report (docs/report.md); beyond
# it the panel has GPU time only, and says so.
MANY_ROWS = 400_000


def data(view: View) -> list[Block]:
    """The data of the flame graph's own page."""
    run = view.run
    large = view.has_device and run.rows("device_ops") + run.rows("host_ops") > MANY_ROWS
    stacks = (
        timeline.stack_device_time(run)
        if large and not run.rows("pc_samples")
        else build_stacks(run)
    )
    weight = choose_weight(stacks, None)
    found: list[Block] = [
        {"kind": "flame", "page": html.page_data(stacks, weight, "", max_nodes=MAX_NODES)}
    ]
    if large:
        found.insert(
            0,
            blocks.make_text(
                "A large run: GPU time only. All weights:  sightline flame -o flame.html"
            ),
        )
    return found
