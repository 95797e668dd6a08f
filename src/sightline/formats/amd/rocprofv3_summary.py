"""What rocprofv3 prints at a program's end (`-S`, `--summary`): sums by name, a table or several.

Format: ROCm documentation, "Using rocprofv3": a table of all domains ("ROCPROFV3 SUMMARY:"), before
it those of each domain and of groups (`--summary-per-domain`, `--summary-groups`), whose rows are
the same. The shares of a table are of all its rows, so they add up to 100 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import format_several
from sightline.errors import DamagedError
from sightline.formats._rocm_sums import describe_row
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import import_sums, note_several, read_count

IMPORTER = Importer(
    name="rocprofv3_summary",
    label="Summary of rocprofv3 (text)",
    strong=(rb"(?:\A|\n)[ \t]*ROCPROFV3 (?:[\w|. ]{1,200} )?SUMMARY:[ \t]*\r?\n\s*\| *NAME +\|",),
    weak=(),
    looks_like="ROCPROFV3 SUMMARY: above a table with NAME, DOMAIN, CALLS, DURATION (nsec)",
    suffixes=(".txt", ".log"),
    version=1,
    source="https://rocm.docs.amd.com/projects/rocprofiler-sdk/en/latest/how-to/using-rocprofv3.html",
    in_logs=(b"ROCPROFV3 SUMMARY:", b" SUMMARY:\n\n|"),
)

_HEADING = re.compile(r"^ROCPROFV3 (?:(.{1,200}?) )?SUMMARY:$")
_ALL = ""  # the table of all domains
_PERCENT = "PERCENT (INC)"
_COLUMNS = {"DURATION (nsec)": "duration_ns", "MIN (nsec)": "shortest_duration_ns",
            "MAX (nsec)": "longest_duration_ns"}  # fmt: skip
_ROUNDED = 1e-6  # of a share, in %: six digits behind the point


@dataclass
class _Table:
    """Rows of a table by name and domain, and what their shares add up to."""

    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    percent: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the shares are of these rows; where none are printed, nothing is known."""
        return self.percent is None or abs(self.percent - 100) <= _ROUNDED * len(self.rows) + 1e-9


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables. Raises DamagedError where none has a row."""
    notes: list[Quality] = []
    parts, bad = _read_parts(read_text(source, notes))
    rows: list[dict[str, Any]] = []
    for number, tables in enumerate(parts):
        at = number if len(parts) > 1 else None
        rows += [{**row, "part": at} for row in _unite(tables).values()]
    if not rows:
        why = "no table of it has a row with a name, calls and a time"
        raise DamagedError(f"cannot read {source.given}", why=why)
    notes += note_bad_lines(bad, "row of rocprofv3's summary")
    notes += _note_missing([table for tables in parts for table in tables.values()])
    return import_sums(rows, "rocprofv3", [*notes, *note_several(len(parts))])


def _read_parts(text: str) -> tuple[list[dict[str, _Table]], int]:
    """The tables of each run by what they are of, and how many of their lines are damaged."""
    parts: list[dict[str, _Table]] = [{}]
    bad = 0
    for of, table, damaged in _list_tables(text.splitlines()):
        if of in parts[-1] or _ALL in parts[-1]:
            parts.append({})
        parts[-1][of] = table
        bad += damaged
    return [tables for tables in parts if any(table.rows for table in tables.values())], bad


def _list_tables(lines: list[str]) -> Iterator[tuple[str, _Table, int]]:
    """What each table is of, its rows, and how many lines of it are damaged."""
    for at, line in enumerate(lines):
        heading = _HEADING.match(line.strip())
        if heading is not None:
            yield heading[1] or _ALL, *_read_table(lines[at + 1 :])


def _read_table(lines: list[str]) -> tuple[_Table, int]:
    """The table that begins behind some empty lines, up to the next line that is none of it."""
    table, names, bad = _Table(), list[str](), 0
    for line in map(str.strip, lines):
        if not line.startswith("|"):
            if line or names:
                break
            continue
        if not names:
            names = [cell.strip() for cell in line.strip("|").split("|")]
            if "DURATION (nsec)" not in names or "CALLS" not in names:
                return table, 1
        elif not line.startswith("|--"):
            cells = [cell.strip() for cell in line[1:].rstrip("|").rsplit("|", len(names) - 1)]
            row = dict(zip(names, cells, strict=False)) if len(cells) == len(names) else {}
            bad += not _add_row(table, row)
    return table, bad + (not names)


def _add_row(table: _Table, cells: dict[str, str]) -> bool:
    """Whether a row has what it needs; then it is in the table."""
    name, domain = replace_surrogates(cells.get("NAME", "")), cells.get("DOMAIN", "")
    calls = read_count(cells.get("CALLS", ""))
    times = {ours: read_count(cells.get(theirs, "")) for theirs, ours in _COLUMNS.items()}
    if not name or not domain or calls is None or times["duration_ns"] is None:
        return False
    if _PERCENT in cells:
        try:
            share = float(cells[_PERCENT])
        except ValueError:
            return False
        table.percent = (table.percent or 0.0) + share
    table.rows[name, domain] = {"name": name, "calls": calls, **times, **describe_row(domain)}
    return True


def _unite(tables: dict[str, _Table]) -> dict[tuple[str, str], dict[str, Any]]:
    """Each row once: those of all domains, then what only another table has."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for of in (_ALL, *tables):
        if of in tables:
            rows = {**tables[of].rows, **rows}
    return rows


def _note_missing(tables: list[_Table]) -> Iterator[Quality]:
    """What to say of tables whose shares do not add up: rows of them are gone."""
    cut = sum(not table.is_whole for table in tables)
    if cut:
        text = (
            f"the shares in {format_several(cut, 'table')} do not add up to 100 %: rows are "
            "missing, or changed"
        )
        yield Quality("totals_differ", "warning", text, cut, "Take the tool's own text again.")
