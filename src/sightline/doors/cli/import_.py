"""Read recordings once and keep them as a store: a folder of Parquet files.

  sightline import rank*.json.gz -o job.sightline
  sightline report job.sightline

DuckDB, Polars, pandas and Spark open the files as they are:

  duckdb -c "SELECT * FROM 'job.sightline/device_ops/**/*.parquet' LIMIT 5"

A part of a long recording, small enough to send or to look into:

  sightline import long.json.gz --between 61s..63.5s -o part.sightline
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.doors.cli._output import refuse_inputs
from sightline.doors.cli._shared import add_paths, add_reading, open_recordings

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.core.model.run import Run

HELP = "keep recordings as a store of Parquet files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="NAME.sightline", help="the store to write"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="remove what is at NAME.sightline, whatever it is; only a store is replaced otherwise",
    )
    parser.add_argument(
        "--between",
        metavar="A..B",
        help="keep only what lies between two moments, counted from the first event: 10ms..25ms",
    )
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.core.units import parse_range_ns
    from sightline.errors import RequestError
    from sightline.opening.save import save_run

    target = Path(args.output)
    if target.name in ("", ".."):
        raise RequestError(
            f"cannot write {args.output}",
            why="a store is a folder of its own, and this does not name one",
            hint="For example:  -o job.sightline",
        )
    if target.suffix != ".sightline":
        target = target.with_name(target.name + ".sightline")
    refuse_inputs([target, *target.rglob("*")] if target.exists() else [], args.recordings)
    between = (
        parse_range_ns(args.between, "For example:  --between 10ms..25ms") if args.between else None
    )
    opened: Run = open_recordings(args)
    if between is None:
        save_run(opened, target, replace=args.replace)
    else:
        opened = _keep_between(opened, between, target, replace=args.replace)
    for name in opened.present():
        print(f"{name:<16}{opened.rows(name):>14,} rows", file=sys.stderr)
    print(target)
    return 0


def _keep_between(run: Run, between: tuple[int, int | None], target: Path, *, replace: bool) -> Run:
    from sightline.core.model.span import find_span
    from sightline.core.units import format_ns
    from sightline.errors import RequestError
    from sightline.opening.run import open_run
    from sightline.opening.save import save_excerpt

    whole = find_span(run)
    if whole is None:
        raise RequestError(
            "nothing lies between two moments of this recording", why="it has no times"
        )
    first, last = between
    span = (whole[0] + first, whole[1] if last is None else min(whole[0] + last, whole[1]))
    if span[0] >= span[1]:
        raise RequestError(
            f"nothing was recorded after {format_ns(first)}",
            why=f"the recording is {format_ns(whole[1] - whole[0])} long",
        )
    save_excerpt(run, span, target, replace=replace)
    return open_run([str(target)])
