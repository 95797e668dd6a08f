"""What happened in a recording, one line an event, in order of time.

sightline events trace.json        everything, as babeltrace2 does
sightline events trace.json --between 10ms..12ms
sightline events job/ --only device_ops          kernels, copies: a timeline
sightline events ctf-trace/ --grep 'sched_switch.*python'
sightline events trace.json --format csv -o events.csv

A line has the time since the first event, what it was, how long it took, and
what else is known: where, the GPU's counters meanwhile, and in collectives the
rank that was waited for. Any recording has events: GPUs, MPI, threads, memory.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.doors.cli._output import add_exact, add_target, choose_table_format
from sightline.doors.cli._shared import (
    add_paths,
    add_reading,
    count_rows,
    find_width,
    open_recordings,
)

if TYPE_CHECKING:
    import polars as pl

HELP = "every event of a recording as a line of text"
_NAME, _LEAST = 38, 20  # columns of an event's name
_BESIDE = 54  # of 80, for time, duration and a note such as 'waits 2.511 ms for rank 1'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths(parser)
    parser.add_argument(
        "--between",
        metavar="A..B",
        help="only events that begin between two moments, counted from the first: 10ms..25ms",
    )
    parser.add_argument(
        "--grep", metavar="REGEX", help="only lines in which this is found; (?i) for any case"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TABLE",
        help="only events of these tables: device_ops, host_ops, sched_events, ... (sightline "
        "tables); samples (counters, cpu_samples) are left out otherwise",
    )
    parser.add_argument(
        "--limit", type=count_rows, default=0, metavar="N", help="the first N of them"
    )
    parser.add_argument(
        "--format", default=None, metavar="F", help="text (default), csv, json, parquet, markdown"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser, with_format=False)
    add_exact(parser)
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    from sightline.answer.events import COLUMNS, list_events, shorten_names
    from sightline.core.model.span import find_span
    from sightline.core.units import parse_range_ns
    from sightline.doors.cli._shared import print_bytes
    from sightline.views.tables import write

    opened = open_recordings(args)
    span = find_span(opened)
    chosen = None
    if args.between is not None:
        first, last = parse_range_ns(args.between, "For example:  --between 10ms..25ms")
        begin, end = span or (0, 0)
        chosen = (begin + first, end + 1 if last is None else begin + last)
    only = [name for text in args.only for name in text.split(",") if name]
    frame = list_events(opened, span=chosen, only=only, pattern=args.grep)
    if args.limit:
        frame = frame.head(args.limit)
    if args.format not in (None, "text") or args.json:
        form = choose_table_format(args)
        print_bytes(write(frame, COLUMNS, form, 0, exact=args.exact))
        return 0
    zero = span[0] if span is not None else frame.get_column("time_ns").min()
    _print(shorten_names(frame), int(zero or 0))  # type: ignore[arg-type]
    return 0


def _print(frame: pl.DataFrame, zero: int) -> None:
    """A line an event; on a terminal no line is longer than it is wide."""
    import sys

    from sightline.core.units import format_ns

    width = find_width(sys.stdout) if sys.stdout.isatty() else None
    room = _NAME if width is None else max(_LEAST, min(_NAME, width - _BESIDE))
    print(f"{'time (ms)':>12}  {'event':<{room}} {'duration':>10}  notes")
    several = frame.get_column("rank").n_unique() > 1
    for at, length, rank, what, name, place, remarks, notes in frame.iter_rows():
        event = f"{what}: {name}" if name else what
        who = f"rank {rank}" if several and rank is not None else None
        rest = [remarks, who, place, notes]
        took = "" if length is None else format_ns(length)
        shown = f"{event[: room - 1]}…" if len(event) > room and width else event
        line = f"{(at - zero) / 1e6:>12.3f}  {shown:<{room}} {took:>10}  "
        line += " ".join(text for text in rest if text)
        print((line if width is None else line[:width]).rstrip())
