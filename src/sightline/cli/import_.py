"""Read recordings once and keep them as a store: a folder of Parquet files.

  sightline import rank*.json.gz -o job.sightline
  sightline report job.sightline

DuckDB, Polars, pandas and Spark open the files as they are:

  duckdb -c "SELECT * FROM 'job.sightline/device_ops/**/*.parquet' LIMIT 5"
"""

from __future__ import annotations

import argparse

from sightline.cli._output import refuse_inputs
from sightline.cli._shared import add_reading, open_recordings

HELP = "keep recordings as a store of Parquet files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recordings",
        nargs="+",
        metavar="RECORDING",
        help="files, folders, globs or .sightline stores, of one execution",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="NAME.sightline", help="the store to write"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="remove what is at NAME.sightline, whatever it is; only a store is replaced otherwise",
    )
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.opening.save import save_run

    target = Path(args.output)
    if target.name in ("", ".."):
        raise RequestError(
            f"cannot write {args.output}",
            why="a store is a folder of its own, and this names none",
            hint="For example:  -o job.sightline",
        )
    if target.suffix != ".sightline":
        target = target.with_name(target.name + ".sightline")
    refuse_inputs([target, *target.rglob("*")] if target.exists() else [], args.recordings)
    opened = open_recordings(args)
    save_run(opened, target, replace=args.replace)
    for name in opened.present():
        print(f"{name:<16}{opened.rows(name):>14,} rows", file=sys.stderr)
    print(target)
    return 0
