"""A flame graph: all code, CPU and GPU, proportional to what it costs.

  sightline flame trace.json -o flame.html           an offline page
  sightline flame trace.json -o flame.svg            GPU time by who launched it
  sightline flame trace.json --weight gpu_idle_ns -o idle.svg
  sightline flame trace.json --order why -o why.svg  the reason first
  sightline flame trace.json -o out.folded           for flamegraph.pl

  sightline flame after.json --before before.json -o diff.html

The ending of -o decides: .html, .svg, .folded, .speedscope.json, .pb.gz.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.doors.cli._output import refuse_inputs, write_file
from sightline.doors.cli._shared import add_recordings, open_recordings

if TYPE_CHECKING:
    from sightline.core.model.run import Run
    from sightline.flames.stacks import Stacks

HELP = "a flame graph from the Python line to the stall"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write; else folded text")
    parser.add_argument(
        "--weight",
        metavar="W",
        help="gpu_time_ns, exposed_ns, gpu_idle_ns, cpu_time_ns, samples, latency_samples, bytes, "
        "energy_j",
    )
    parser.add_argument(
        "--order",
        choices=["how", "why"],
        default="how",
        help="how: from the root to the stall; why: from the reason to who called it",
    )
    parser.add_argument(
        "--layers", metavar="L,L", help="only frames of these layers, such as op,kernel"
    )
    parser.add_argument(
        "--palette", choices=["gpu", "safe"], default="gpu", help="safe: for color-blind people"
    )
    parser.add_argument(
        "--before",
        action="append",
        metavar="RECORDING",
        help="an earlier recording to compare with, for .html; may be given several times",
    )
    parser.add_argument(
        "--per",
        choices=["step", "total"],
        default="step",
        help="with --before, what to scale by: steps (where both mark them), or the total",
    )
    parser.add_argument("--icicle", action="store_true", help="root at the top, in .svg")
    parser.add_argument(
        "--split",
        action="store_true",
        help="in .svg, keep ranks, threads, steps and layers apart; the page has a switch",
    )


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.flames import stacks as table
    from sightline.flames.build import build_stacks, choose_weight
    from sightline.flames.drawing import Style, draw_stacks
    from sightline.flames.layers import INDEX

    inputs = [*args.recordings, *(args.before or ())]
    if args.output is not None:
        refuse_inputs([Path(args.output)], inputs)
    opened = open_recordings(args)
    built = build_stacks(opened)
    weight = choose_weight(built, args.weight)
    if args.layers:
        wanted = [name.strip() for name in args.layers.split(",")]
        unknown = [name for name in wanted if name not in INDEX]
        if unknown:
            raise RequestError(
                f"there is no layer '{unknown[0]}'", why=f"there are {', '.join(INDEX)}"
            )
        built = table.keep_weights(built, wanted)
    if args.order == "why":
        built = table.explain_idle(built)
    before = _before(args, opened, built, weight) if args.before else None
    title = Path(opened.table("recordings").item(0, "path")).name
    style = Style(args.palette, args.icicle, args.split)
    data = draw_stacks(built, weight, title, args.output or ".folded", style, before)
    _say_broken_memory(opened, weight)
    if args.output is None:
        if sys.stdout.isatty():
            raise RequestError(
                "folded stacks are for other programs, and stdout is a terminal",
                hint="A page to open:  -o flame.html\nThe stacks:      | less",
            )
        sys.stdout.write(data.decode())
        return 0
    write_file(Path(args.output), data, inputs)
    grades = built.describe_grades(weight)
    joined = f"; joined: {grades}" if grades else ""
    share = built.share_with_cpu_stack(weight)
    stacked = "" if share is None else f"; {share:.1f} % of the GPU's has a CPU stack"
    print(f"{args.output} written ({weight}{joined}{stacked})", file=sys.stderr)
    return 0


def _say_broken_memory(run: Run, weight: str) -> None:
    """On standard error, where the weight is of memory, and that does not add up."""
    import sys

    from sightline.flames.stacks import UNITS
    from sightline.subjects.memory.conservation import note_broken_memory

    if UNITS.get(weight) == "bytes" and (broken := note_broken_memory(run)) is not None:
        print(f"note: {broken.text}", file=sys.stderr)


def _before(
    args: argparse.Namespace, after: Run, built: Stacks, weight: str
) -> tuple[Stacks, float]:
    """The earlier run's stacks, scaled to the work of the later one, and how steps vary anyway."""
    from sightline.flames.build import build_stacks
    from sightline.flames.stacks import explain_idle, scale_stacks
    from sightline.opening.run import open_run as open_paths

    earlier = open_paths(args.before)
    stacks = build_stacks(earlier)
    factor = (
        _steps(after) / _steps(earlier)
        if args.per == "step"
        else (built.total(weight) / max(stacks.total(weight), 1))
    )
    stacks = scale_stacks(stacks, factor)
    noise = max(_variation(earlier), _variation(after))
    return (explain_idle(stacks) if args.order == "why" else stacks), noise


def _variation(run: Run) -> float:
    """Standard deviation over mean of the marked steps' lengths; 0 with fewer than three."""
    import polars as pl

    steps = run.scan("host_ops").filter(pl.col("layer") == "step").collect()
    length = (steps.get_column("end_ns") - steps.get_column("start_ns")).cast(pl.Float64)
    mean, spread = length.mean(), length.std()
    if length.len() < 3 or not isinstance(mean, float) or not isinstance(spread, float) or not mean:
        return 0.0
    return spread / mean


def _steps(run: Run) -> int:
    """How many steps a run marks; 1 where it marks none."""
    import polars as pl

    marks = run.scan("host_ops").filter(pl.col("layer") == "step").select("name").unique()
    return max(marks.collect().height, 1)
