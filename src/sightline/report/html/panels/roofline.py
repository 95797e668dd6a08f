"""The roofline: profiled kernels under the ceilings of the device."""

from __future__ import annotations

from sightline import registry
from sightline.errors import MissingDataError
from sightline.report.html import blocks
from sightline.report.html.declare import Block, Panel, View
from sightline.roofline.chart import make_chart
from sightline.roofline.svg import draw_svg

PANEL = Panel("roofline", "Roofline", 60)


def data(view: View) -> list[Block]:
    """The picture of `sightline roofline -o`, and its rows."""
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
