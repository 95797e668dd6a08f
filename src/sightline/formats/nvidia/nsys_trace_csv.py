"""Traces of `nsys stats` as CSV: cuda_gpu_trace, cuda_api_trace and nvtx_pushpop_trace.

Format: Nsight Systems User Guide, "Report Scripts" (reports/cuda_gpu_trace.py and its neighbours):
a row an operation, call or range, with its start and length; units stand in the headers.
`nsys stats` prints several reports behind each other, with lines of its own between them, or writes
a file for each (`--output BASE`): the folder of these is read as one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.nvidia._nsys_trace import Table, TraceRows, make_table

_UNIT = rb"(?:ns|nsec|us|usec|ms|msec|s|sec)"
IMPORTER = Importer(
    name="nsys_trace_csv",
    label="Traces of nsys stats (CSV)",
    strong=(
        # Lines that nsys stats prints before a report: notices, and what it processes. Each is
        # whole: a line that could be cut anywhere is cut in every way where nothing matches.
        rb"\A(?:\xef\xbb\xbf)?"
        rb"(?:(?:NOTICE|Processing|Generating|Exporting|[ \t*])[^\n]*\n|\r?\n){0,20}[ \t]*"
        rb'"?Start ?\(' + _UNIT + rb'\)"?,"?(?:End ?\(' + _UNIT + rb'\)"?,"?)?Duration ?\('
        + _UNIT + rb'\)"?,"?(?:CorrId|Name|DurChild)',
        rb"^FOLDER\n(?:[^\n]*\n)*[^\n]*cuda_gpu_trace\.csv ",
    ),
    weak=(),
    looks_like="CSV with Start (ns), Duration (ns), CorrId … Strm, Name, or a folder of such files",
    suffixes=(".csv",),
    version=4,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html#report-scripts",
)  # fmt: skip

_HEADER = re.compile(r'^\ufeff?"?Start ?\((?:ns|nsec|us|usec|ms|msec|s|sec)\)"?,')


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all reports. Raises DamagedError where no operation, call or range is whole."""
    quality: list[Quality] = []
    paths = sorted(source.path.glob("*_trace.csv")) if source.path.is_dir() else [source.path]
    rows = TraceRows()
    for path in paths:
        text = read_text(Source(path, source.given, source.on_read), quality)
        for table in _split_reports(text):
            rows.add(table)
    if not rows.ops and not rows.calls:
        is_empty = not any(line.strip() for line in text.splitlines()[1:])
        why = "it has a header and no row" if is_empty else "it has no complete row"
        raise DamagedError(f"cannot read {source.given}", why=why)
    quality += note_bad_lines(rows.lost, "row of a trace")
    return rows.build(quality)


def _split_reports(text: str) -> Iterator[Table]:
    """The reports of a text: a header, and the rows up to the next line that is none of them."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not _HEADER.match(lines[at]):
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end].strip() and not _HEADER.match(lines[end]):
            end += 1
        try:
            header, *rows = csv.reader(lines[at:end])
        except csv.Error:
            header, rows = [], []
        if header:
            # A quotation that is not closed takes the lines below it.
            rows += [[]] * (end - at - 1 - len(rows))
            yield make_table(header, rows)
        at = end
