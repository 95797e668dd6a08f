"""Which operators, modules and layers a replayed graph's kernels belong to.

sightline graph execution.json.gz                     layers and their parts
sightline graph execution.json.gz --capture capture.json.gz
sightline graph execution.json.gz --capture capture.json.gz --format csv
                                                      each kernel

A CUDA or HIP graph's kernels carry no operator. The recording in which the same
program captured it has one for each: vLLM writes it with
"capture_torch_profiler": true in --profiler-config, SGLang with
    _print_tied(found, "capture", "are matched to their capture")
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
WIDTHS = (30, 24)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument(
        "--capture",
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
    capture = None if args.capture is None else sightline.open(args.capture)
    found = open_recordings(args).attribute_graphs(capture)
    if found.is_empty():
        raise MissingDataError("no graph is replayed", why="no step has a call that launches one")
    is_tied = capture is not None or found.get_column("capture").count() > 0
    if form == "table" and not is_tied:
        _print_parts(found)
    elif form == "table":
        _print_operators(found)
    else:
        print_bytes(write(found, COLUMNS, form, 0, Reading(), exact=args.exact))
    return 0


def _print_operators(found: pl.DataFrame) -> None:
    from sightline.core.units import format_count

    _print_tied(found, "capture", "are matched to their capture")
    grades = found.group_by("confidence").len().sort("confidence").rows()
    print(f"confidence: {', '.join(f'{grade} {format_count(n)}' for grade, n in grades)}\n")
    _print_sums(found, ("operator", "module"))


def _print_parts(found: pl.DataFrame) -> None:
    _print_tied(found, "part", "have a part of the model, by what repeats")
    print("their operators: --capture FILE, the recording of their capture\n")
    _print_sums(found, ("part",))


def _print_tied(found: pl.DataFrame, column: str, are: str) -> None:
    layer = found.get_column("layer")
    layers = format_several(layer.n_unique() - int(layer.has_nulls()), "layer")
    whole = format_several(found.height, "replayed operation")
    print(format_note(found.get_column(column).count(), f"of {whole} {are}, {layers}"))


def _print_sums(found: pl.DataFrame, by: tuple[str, ...]) -> None:
    import polars as pl

    from sightline.core.text import fit_text, make_printable
    from sightline.core.units import format_count, format_ns, format_pct

    known = found.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    whole = max(int(known.select(pl.col("ns").sum()).item()), 1)
    head = "".join(f"{name:<{width}}" for name, width in zip(by, WIDTHS, strict=False))
    print(f"{head}{'n':>6}{'total':>11}{'share':>9}")
    sums = known.group_by(by).agg(n=pl.len(), ns=pl.col("ns").sum())
    for *names, n, ns in sums.sort("ns", *by, descending=True).head(TOP).rows():
        texts = "".join(
            f"{fit_text(make_printable(name or '-'), width - 2):<{width}}"
            for name, width in zip(names, WIDTHS, strict=False)
        )
        share = format_pct(100 * ns / whole)
        print(f"{texts}{format_count(n):>6}{format_ns(ns):>11}{share:>9}")
