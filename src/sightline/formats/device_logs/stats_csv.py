"""Sums of kernels and calls by rocprof and rocprofv3 (`*_stats.csv`): no times of their own.

What `nsys stats --format csv` writes is read with what it prints (`nvidia_text`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._rocm_sums import DOMAINS, describe_row, find_domain
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import import_sums, read_count, read_duration
from sightline.formats._text_damage import note_blank_lines

IMPORTER = Importer(
    name="stats_csv",
    label="Summary of rocprof (CSV)",
    strong=(rb'\A(?:\xef\xbb\xbf)?\s*"?Name"?,"?Calls"?,"?TotalDurationNs"?,',),
    weak=(),
    looks_like="CSV with Name, Calls, TotalDurationNs",
    suffixes=(".csv",),
    version=4,
    source="https://rocm.docs.amd.com/projects/rocprofiler/en/docs-6.0.0/rocprofv1.html",
)

_WAIT = "<barrier packet>"  # rocprof's name for a queue's wait, which is not a kernel


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows. Raises DamagedError where there is none."""
    notes: list[Quality] = []
    text = read_text(source, notes)
    notes += note_blank_lines(text)
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        header, *records = csv.reader(lines)
    except (ValueError, csv.Error) as error:
        raise DamagedError(f"cannot read {source.given}", why="it has no row") from error
    whole = [record for record in records if len(record) == len(header)]
    rows = list(_list_rows(header, whole))
    if rows and all(row["name"] in DOMAINS for row in rows):
        raise DamagedError(
            f"cannot read {source.given}",
            why="it has the totals of whole domains (HIP_API, KERNEL_DISPATCH …), and no kernel or "
            "call by name",
            hint="Give a table beside it:  *_kernel_stats.csv, *_hip_api_stats.csv",
        )
    if not rows:
        raise DamagedError(
            f"cannot read {source.given}", why="it has no row with a name and a time"
        )
    waits = sum(record[0] == _WAIT for record in whole)
    if waits:
        notes.append(Quality("waits_left_out", "info", "a queue's waits are not kernels: left out"))
    notes += note_bad_lines(len(records) - len(rows) - waits, "row of the summary")
    return import_sums(rows, "rocprof", notes)


def _list_rows(header: list[str], records: list[list[str]]) -> Iterator[dict[str, Any]]:
    """The recognised header begins with Name, Calls, TotalDurationNs."""
    names = [name.strip("\ufeff ") for name in header]
    places = {"calls": 1, "shortest_duration_ns": _find(names, "MinNs"),
              "longest_duration_ns": _find(names, "MaxNs")}  # fmt: skip
    for record in records:
        ns, name = read_duration(record[2]), replace_surrogates(record[0].strip())
        if ns is None or not name or name == _WAIT:
            continue
        yield {
            **describe_row(find_domain(name)),
            "name": name,
            "duration_ns": ns,
            **{
                field: None if place is None else read_count(record[place].partition(".")[0])
                for field, place in places.items()
            },
        }


def _find(names: list[str], wanted: str) -> int | None:
    return names.index(wanted) if wanted in names else None
