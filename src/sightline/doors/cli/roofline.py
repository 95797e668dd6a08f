"""The roofline of profiled kernels: text, SVG, PNG, data; of sampled ones, bounds.

sightline roofline report.ncu-rep
sightline roofline report.ncu-rep -o roofline.svg
sightline roofline report.ncu-rep -o roofline.png
sightline roofline report.ncu-rep --json
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._output import refuse_inputs, write_file
from sightline.doors.cli._shared import add_recordings, open_recordings, print_bytes

HELP = "kernels under the ceilings of the device: in the terminal, as SVG, PNG or data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="a file that ends in .svg or .png")
    parser.add_argument(
        "--kernel", metavar="TEXT", help="only kernels whose name contains this text"
    )
    parser.add_argument("--top", type=int, default=12, metavar="N", help="kernels in the legend")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    import polars as pl

    from sightline.core import registry
    from sightline.errors import MissingDataError, RequestError
    from sightline.roofline.chart import make_chart
    from sightline.roofline.png import draw_png
    from sightline.roofline.sampled_text import draw_bounds
    from sightline.roofline.svg import draw_svg
    from sightline.roofline.terminal import draw_text
    from sightline.views.tables import write

    target = Path(args.output) if args.output else None
    if target is not None and target.suffix.lower() not in (".svg", ".png"):
        raise RequestError(f"cannot draw {target}", why="its name ends in neither .svg nor .png")
    refuse_inputs([target] if target is not None else [], args.recordings)
    recording = open_recordings(args)
    sampled = bool(recording.rows("pc_samples")) and not recording.rows("kernel_metrics")
    analysis = "sampled_roofline" if sampled else "roofline"
    rows = recording.ask(analysis)
    if args.kernel:
        rows = rows.filter(pl.col("name").str.contains(args.kernel, literal=True))
    if args.json:
        print_bytes(write(rows, registry.load("analyses", analysis).ANALYSIS.columns, "json", 0))
        return 0
    devices = recording.table("devices").get_column("name").drop_nulls().unique(maintain_order=True)
    device = " + ".join(devices) or None
    if sampled and target is None:
        print(draw_bounds(rows.to_dicts(), device, args.top), end="")
        return 0
    if sampled:
        raise MissingDataError(
            "there is no roofline to draw",
            why="the kernels were sampled: the traffic of device memory was not counted",
            hint="See their bounds with  sightline roofline, without -o.",
        )
    chart = make_chart(rows.iter_rows(named=True), device, args.top)
    if chart is None:
        raise MissingDataError(
            "there is no roofline to draw",
            why="no kernel has both counted arithmetic and traffic of device memory",
            hint="Record with  ncu --set full  or --section SpeedOfLight_RooflineChart.",
        )
    if target is None:
        print(draw_text(chart, top=args.top), end="")
        return 0
    svg = draw_svg(chart, args.top)
    data = draw_png(svg) if target.suffix.lower() == ".png" else svg.encode()
    write_file(target, data, args.recordings)
    print(f"{target} written", file=sys.stderr)
    return 0
