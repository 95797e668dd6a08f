"""Lines of a text in which a profiler's tables stand, cut into cells whoever pasted them.

A table may stand in a program's log, behind the marks of a comment (`//`, `#`, `*`, `>`), as a
Markdown table, or as CSV: its cells are the same.
"""

from __future__ import annotations

import csv
import re

_MARKS = re.compile(r"^\s*(?://+|#+|\*+|>+|--)(?=\s)")
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,12}[A-Za-z]")
_RULED = re.compile(r"^[\s|+:=-]*-{3,}[\s|+:=-]*$")
_GAP = re.compile(r"\s{2,}|\t+")
LONGEST = 20_000  # a line that is longer is not a table's


def list_lines(text: str) -> list[str]:
    """The lines, of those that a progress bar wrote over what stood last."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    return [line.expandtabs(4) for line in lines] if "\t" in text else lines


def drop_marks(line: str) -> str:
    """A line without the marks of a comment or a quotation, at its place."""
    found = _MARKS.match(line)
    return line if found is None else " " * found.end() + line[found.end() :]


def is_rule(line: str) -> bool:
    """Whether a line only draws a rule: dashes below a table's header."""
    return bool(_RULED.match(line))


def cut_cells(line: str, most: int = 0) -> list[str]:
    """The cells of a line: at most `most`, where the last one may hold gaps; 0 for all."""
    plain = line.strip()
    if len(plain) > LONGEST or not plain:
        return []
    if plain.startswith("|"):
        cells = [cell.strip() for cell in plain.strip("|").split("|", max(most - 1, -1))]
        return cells if not most or len(cells) <= most else cells[:most]
    if is_csv(plain):
        try:
            return [cell.strip() for cell in next(csv.reader([plain]), [])]
        except csv.Error:
            return []
    return _GAP.split(plain, maxsplit=max(most - 1, 0))


def is_csv(line: str) -> bool:
    """Whether a line is one of CSV: it has commas where a printed table has gaps."""
    return line.count(",") >= 3 and not _GAP.search(line.split('"')[0].strip())
