"""Summaries of kernels and calls as CSV: `nsys stats --format csv`, rocprof's `results.stats.csv`.

They have no times but sums: a row for each name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import import_sums, read_count, read_duration

IMPORTER = Importer(
    name="stats_csv",
    label="Summary of nsys stats or rocprof (CSV)",
    strong=(
        rb'\A(?:\xef\xbb\xbf)?\s*"?Time ?\(%\)"?,"?(?:Total )?Time ?\(ns\)"?,'
        rb'"?(?:Instances|Num Calls|Count)"?,',
        rb'\A(?:\xef\xbb\xbf)?\s*"?Name"?,"?Calls"?,"?TotalDurationNs"?,',
    ),
    weak=(),
    looks_like="CSV with Time (%), Total Time (ns), Instances; or Name, Calls, TotalDurationNs",
    suffixes=(".csv",),
    version=2,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html#report-scripts",
)  # fmt: skip

_TOTAL = re.compile(r"^(?:Total ?)?(?:Time ?\(ns\)|DurationNs)$", re.IGNORECASE)
_COUNTS = ("Instances", "Num Calls", "Count", "Calls")
_LEAST, _MOST = ("Min (ns)", "MinNs"), ("Max (ns)", "MaxNs")
_CALL = re.compile(r"^(?:cu|cuda|hip|hsa_|roctx|mpi_|MPI_)[A-Za-z]")
_WAIT = "<barrier packet>"  # rocprof's name for a queue's wait, which is no kernel


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows. Raises DamagedError where there is none."""
    notes: list[Quality] = []
    lines = [line for line in read_text(source, notes).splitlines() if line.strip()]
    try:
        header, *records = csv.reader(lines)
    except (ValueError, csv.Error) as error:
        raise DamagedError(f"cannot read {source.given}", why="it has no row") from error
    whole = [record for record in records if len(record) == len(header)]
    rows = list(_list_rows(header, whole))
    if not rows:
        raise DamagedError(
            f"cannot read {source.given}", why="it has no row with a name and a time"
        )
    waits = sum(record[0] == _WAIT for record in whole)
    if waits:
        notes.append(Quality("waits_left_out", "info", "a queue's waits are no kernel: left out"))
    notes += note_bad_lines(len(records) - len(rows) - waits, "row of the summary")
    tool = "rocprof" if header[0].strip('"\ufeff ') == "Name" else "nsys stats"
    return import_sums(rows, tool, notes)


def _list_rows(header: list[str], records: list[list[str]]) -> Iterator[dict[str, Any]]:
    names = [name.strip("\ufeff ") for name in header]
    total = next((n for n, name in enumerate(names) if _TOTAL.match(name)), None)
    label = next(
        (n for n, name in enumerate(names) if name in ("Name", "Operation", "Range")), None
    )
    if total is None or label is None:
        return
    is_work = "Instances" in names or "Operation" in names
    for record in records:
        ns, name = read_duration(record[total]), replace_surrogates(record[label].strip())
        if ns is None or not name or name == _WAIT:
            continue
        on_host = bool(_CALL.match(name)) if "TotalDurationNs" in names else not is_work
        yield {
            "kind": "host" if on_host else "device",
            "layer": "runtime" if on_host else None,
            "name": name,
            "calls": _find(names, record, _COUNTS),
            "duration_ns": ns,
            "shortest_duration_ns": _find(names, record, _LEAST),
            "longest_duration_ns": _find(names, record, _MOST),
        }


def _find(names: list[str], record: list[str], wanted: tuple[str, ...]) -> int | None:
    place = next((n for n, name in enumerate(names) if name in wanted), None)
    return None if place is None else read_count(record[place].partition(".")[0])
