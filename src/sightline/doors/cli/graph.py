"""Which operators, modules and layers the kernels of a replayed graph are of.

sightline graph execution.json.gz --capture capture.json.gz
sightline graph execution.json.gz --capture capture.json.gz --format csv
                                                      each kernel

A CUDA or HIP graph's kernels carry no operator. The recording in which the same
program captured it has one for each: vLLM writes it with
"capture_torch_profiler": true in --profiler-config, SGLang with
--enable-profile-cuda-graph.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.core.units import format_note, format_several
from sightline.doors.cli._output import add_exact, add_target, choose_table_format
from sightline.doors.cli._shared import add_recordings, open_recordings, print_bytes

if TYPE_CHECKING:
    import polars as pl

HELP = "operators and layers of the kernels that a graph replays"
TOP = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument(
        "--capture",
        required=True,
        metavar="FILE",
        help="recording in which the same program captured its graphs",
    )
    parser.add_argument(
        "--format", default=None, metavar="F", help="table (default), csv, json, parquet, markdown"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser, with_format=False)
    add_exact(parser)


def run(args: argparse.Namespace) -> int:
    import sightline
    from sightline.errors import MissingDataError
    from sightline.subjects.serving.captures import COLUMNS
    from sightline.views.tables import Reading, write

    form = choose_table_format(args)
    found = open_recordings(args).attribute_graphs(sightline.open(args.capture))
    if found.is_empty():
        raise MissingDataError("no graph is replayed", why="no step has a call that launches one")
    if form == "table":
        _print_operators(found)
    else:
        print_bytes(write(found, COLUMNS, form, 0, Reading(), exact=args.exact))
    return 0


def _print_operators(found: pl.DataFrame) -> None:
    import polars as pl

    from sightline.core.text import fit_text, make_printable
    from sightline.core.units import format_count, format_ns, format_pct

    known = found.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    whole = max(int(known.select(pl.col("ns").sum()).item()), 1)
    tied = known.get_column("operator").count()
    layers = known.get_column("layer").n_unique() - int(known.get_column("layer").has_nulls())
    print(
        format_note(
            tied,
            f"of {format_several(known.height, 'replayed operation')} are tied to their capture, "
            + format_several(layers, "layer"),
        )
    )
    grades = known.group_by("confidence").len().sort("confidence").rows()
    print(f"confidence: {', '.join(f'{grade} {format_count(n)}' for grade, n in grades)}\n")
    print(f"{'operator':<30}{'module':<24}{'n':>6}{'total':>11}{'share':>9}")
    sums = known.group_by("operator", "module").agg(n=pl.len(), ns=pl.col("ns").sum())
    for operator, module, n, ns in sums.sort("ns", descending=True).head(TOP).rows():
        names = (
            fit_text(make_printable(operator or "-"), 28),
            fit_text(make_printable(module or "-"), 22),
        )
        share = format_pct(100 * ns / whole)
        print(f"{names[0]:<30}{names[1]:<24}{format_count(n):>6}{format_ns(ns):>11}{share:>9}")
