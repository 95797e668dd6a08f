"""The tables of a store: what one row is; columns, their units and what they join.

sightline tables                 all tables
sightline tables device_ops      the columns of one
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._listing import add_json, print_members

HELP = "the tables of a run, and their columns"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="NAME", help="one table, with its columns")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.table is None:
        return print_members("tables", lambda m: m.TABLE.row, args.json)
    import json
    import textwrap

    from sightline.core import registry

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
