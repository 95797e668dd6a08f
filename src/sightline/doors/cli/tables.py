"""The tables of a store: what one row is; columns, their units and what they join.

sightline tables                 all tables
sightline tables trace.json      those that a recording has, and their rows
sightline tables device_ops      the columns of one
"""

from __future__ import annotations

import argparse
import os

from sightline.doors.cli._listing import add_json, print_members

HELP = "the tables of a run, and their columns"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "table",
        nargs="?",
        metavar="NAME",
        help="one table, with its columns; of a recording, the tables that it has",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.table is None:
        return print_members("tables", lambda m: m.TABLE.row, args.json)
    import json
    import textwrap

    from sightline.core import registry

    if args.table not in registry.list_names("tables") and os.path.exists(args.table):  # noqa: PTH110
        return _list_rows(args)
    table = registry.load("tables", args.table).TABLE
    rows = [
        {"name": c.name, "type": str(c.dtype), "unit": c.unit, "joins": c.joins, "doc": c.doc}
        for c in table.columns
    ]
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    print(f"{table.name}: one row is {table.row}")
    for row in rows:
        facts = [row["type"], row["unit"], f"→ {row['joins']}" if row["joins"] else None]
        print(f"\n  {row['name']}  ({', '.join(f for f in facts if f)})")
        print(textwrap.fill(row["doc"], 80, initial_indent="    ", subsequent_indent="    "))
    return 0


def _list_rows(args: argparse.Namespace) -> int:
    """The tables of a recording, with how many rows each has."""
    import json

    from sightline.core.units import format_count
    from sightline.doors.cli._shared import open_recordings

    asked = argparse.Namespace(recordings=[args.table], keep_identity=False)
    run = open_recordings(asked)
    rows = {name: run.rows(name) for name in run.present()}
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    width = max(map(len, rows), default=0)
    for name, count in rows.items():
        print(f"{name:<{width}}  {format_count(count):>12}")
    print("The columns of one:  sightline tables NAME")
    return 0
