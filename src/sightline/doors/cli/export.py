"""A run in another tool's format.

sightline export trace.json --to perfetto -o run.perfetto-trace  ui.perfetto.dev
sightline export report.sqlite --to chrome -o run.json.gz      chrome://tracing
sightline export trace.json --to parquet -o folder               a file a table
sightline export run.nsys-rep --to nsys-sqlite -o run.sqlite  as nsys exports it
sightline export trace.json --to ctf2 -o folder                  Trace Compass
sightline export --list                                    what each loses
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._output import add_exact, refuse_inputs
from sightline.doors.cli._shared import add_paths, add_reading, open_recordings

HELP = "write a run for another tool: perfetto, chrome, ctf2, parquet, csv, nsys-sqlite"


_TIMELINES = ("chrome", "perfetto")
_TIMED = ("device_ops", "host_ops", "device_ranges", "counters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths(parser, nargs="*")
    parser.add_argument(
        "--to", "--format", metavar="FORMAT", help="see --list; else by the ending of -o"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write; by default into the current folder"
    )
    add_exact(parser)
    parser.add_argument("--list", action="store_true", help="the formats, and what each loses")
    add_reading(parser)


def _name_format(output: str) -> str | None:
    """The only format whose files end as this one does."""
    from sightline.core import registry

    if output.endswith(".pftrace"):  # what Android's tools call Perfetto's
        return "perfetto"
    modules = [module.EXPORTER for _, module in registry.load_members("exporters")]
    named = [e.name for e in modules if e.suffix and output.endswith(e.suffix)]
    return named[0] if len(named) == 1 else None


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.core import registry
    from sightline.errors import MissingDataError, RequestError

    if args.list:
        for name, module in registry.load_members("exporters"):
            print(f"{name.replace('_', '-'):<12} {module.EXPORTER.label}")
            print(f"{'':<12} loses: {module.EXPORTER.loses}")
        return 0
    if args.to is None and args.output is not None:
        args.to = _name_format(args.output)
    if not args.recordings or args.to is None:
        raise RequestError(
            "nothing is exported" if args.recordings else "there is no recording to export",
            why=None if not args.recordings else "--to does not say in which format",
            hint="sightline export RECORDING --to perfetto|chrome|parquet|csv|nsys-sqlite -o FILE",
        )
    module = registry.load("exporters", args.to.replace("-", "_"))
    if args.exact and "exact" not in module.EXPORTER.options:
        why = f"{args.to} writes strings as they are"
        raise RequestError("--exact is an option of --to csv", why=why)
    if args.output == "-":
        raise RequestError(
            "an export is not written to standard output",
            why="most formats are written in several places, or are folders",
            hint=f"Name a file or a folder:  -o run{module.EXPORTER.suffix}",
        )
    opened = open_recordings(args)
    if module.EXPORTER.name in _TIMELINES and not any(map(opened.rows, _TIMED)):
        raise MissingDataError(
            f"there is nothing to export as {module.EXPORTER.name}",
            why="the recording has no timeline, and the format is one",
            hint="All its tables:  sightline export RECORDING --to parquet -o FOLDER",
        )
    first = Path(opened.table("recordings").item(0, "path")).name.split(".")[0] or "run"
    target = Path(args.output or f"{first}{module.EXPORTER.suffix}")
    # A folder is written to file by file: those of the tables' names.
    files = [target / f"{table}.{args.to}" for table in registry.list_names("tables")]
    refuse_inputs([target, *files] if not target.is_dir() else files, args.recordings)
    written = module.write(opened, target, **({"exact": True} if args.exact else {}))
    for path in written[:20]:
        print(f"{path} written", file=sys.stderr)
    if len(written) > 20:
        print(f"and {len(written) - 20} more", file=sys.stderr)
    return 0
