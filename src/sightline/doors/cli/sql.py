"""A question in SQL over the tables of a run; DuckDB answers it.

sightline sql trace.json "SELECT name, count(*) FROM device_ops GROUP BY 1"
sightline sql job.sightline "SELECT * FROM quality" --format json
sightline sql gpu-history "SELECT device_id, max(power_w) FROM gpus GROUP BY 1"
sightline tables                     the tables and their columns

The table kernel_labels has the short name that all screens give a kernel:
"SELECT DISTINCT label FROM device_ops JOIN kernel_labels USING (name)"

A folder of sightline watch has gpus, instances, processes, host, links, events,
devices and counters: a row a reading, with a column per metric.
"""

from __future__ import annotations

import argparse

from sightline.core.units import format_several
from sightline.doors.cli._output import add_exact, add_target, choose_table_format
from sightline.doors.cli._shared import (
    add_paths,
    add_reading,
    count_rows,
    open_recordings,
    print_bytes,
)

HELP = "a question in SQL over the tables (sightline tables)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths(parser)
    parser.add_argument("query", metavar="QUERY", help="one SQL statement")
    parser.add_argument(
        "--format",
        default=None,
        metavar="F",
        help="table (default), csv, json, parquet or markdown",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser, with_format=False)
    add_exact(parser)
    parser.add_argument(
        "--limit",
        type=count_rows,
        default=30,
        metavar="N",
        help="rows of --format table and markdown (default 30, 0 for all); data is never cut",
    )
    parser.add_argument(
        "--unsafe",
        action="store_true",
        help="let the query read and write other files, load extensions, and have several "
        "statements",
    )
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.answer.history_sql import answer_history
    from sightline.answer.sql import answer_query
    from sightline.core.model.columns import Column
    from sightline.core.model.history_folder import is_history
    from sightline.views.tables import write

    form = choose_table_format(args)
    folder = Path(args.recordings[0])
    if len(args.recordings) == 1 and is_history(folder):
        frame = answer_history(folder, args.query, unsafe=args.unsafe)
    else:
        frame = answer_query(open_recordings(args), args.query, unsafe=args.unsafe)
    # The columns are the query's: no units are known, so numbers stay as they are.
    columns = tuple(Column(n, t, "of the query", is_id=True) for n, t in frame.schema.items())
    print_bytes(write(frame, columns, form, args.limit, exact=args.exact))
    cut = frame.height - args.limit
    if form in ("table", "markdown") and args.limit > 0 and cut > 0:
        print(f"… {format_several(cut, 'more row')} (--limit 0 for all)", file=sys.stderr)
    return 0
