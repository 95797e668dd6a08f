"""The roofline: profiled kernels under the ceilings of the device."""

from __future__ import annotations

from sightline.core import registry
from sightline.core.page import blocks
from sightline.core.page.declare import Block, Panel, View
from sightline.errors import MissingDataError
from sightline.roofline.chart import make_chart
from sightline.roofline.svg import draw_svg

PANEL = Panel("roofline", "Roofline", 60)


def data(view: View) -> list[Block]:
    """The picture of `sightline roofline -o`, and its rows."""
    if not view.run.rows("kernel_metrics") and view.run.rows("pc_samples"):
        return _bound_sampled(view)
    if not view.run.rows("kernel_metrics"):
        raise MissingDataError(
            "no roofline", why="no hardware counters of kernels: record with  ncu --set full"
        )
    rows = view.run.ask("roofline")
    names = view.run.table("devices").get_column("name").drop_nulls().unique(maintain_order=True)
    chart = make_chart(rows.iter_rows(named=True), " + ".join(names) or None, 12)
    if chart is None:
        raise MissingDataError(
            "no roofline",
            why="no kernel has both counted arithmetic and traffic of device memory",
        )
    light, dark = (draw_svg(chart, 12, dark=on) for on in (False, True))
    analysis = registry.load("analyses", "roofline").ANALYSIS
    return [
        {
            "kind": "image",
            "svg": light,
            "dark": dark,
            "alt": f"{chart.title}; the table below has its numbers",
        },
        blocks.make_table("Kernels", rows, analysis.columns, more="sightline stats roofline"),
    ]


_SAMPLED = (
    "Estimated from samples of instructions; nothing was counted. At least and at most hold the "
    "samples' error (95 %) and the number of active warps, which is assumed to be at least half of "
    "those that fit. No sample shows the traffic of device memory, so there is no picture: "
    "ncu --set full counts it."
)


def _bound_sampled(view: View) -> list[Block]:
    """The bounds of kernels that were sampled while the program ran."""
    rows = view.run.ask("sampled_roofline")
    columns = registry.load("analyses", "sampled_roofline").ANALYSIS.columns
    more = "sightline stats sampled_roofline"
    return [
        blocks.make_text(_SAMPLED),
        blocks.make_table("Bounds from samples", rows, columns, more=more),
    ]
