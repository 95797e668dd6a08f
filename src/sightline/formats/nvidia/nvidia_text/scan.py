"""The tables of a text, one after another, each with what stands above it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sightline.formats._pasted_lines import cut_cells, drop_marks, is_csv, is_rule

# A table's first line, by the cells that it begins with.
SUMS, SIZES, TRACE = "nsys sums", "nsys sizes", "nsys trace"
TOTALS = "nsys unified memory"
NVPROF, NVPROF_TRACE, COUNTERS, UNIFIED = "sums", "trace", "counters", "unified memory"
_UNIT, _LABEL = r"(?: ?\(\w+\))?", r"(?:.*\x1f)?(?:Name|Operation|Range)\b"
_FIRST = (
    (SUMS, re.compile(rf"^Time ?\(%\)\x1fTotal Time{_UNIT}\x1f{_LABEL}")),
    (SIZES, re.compile(rf"^Total{_UNIT}\x1f(?:Count|Operations)\x1f{_LABEL}")),
    (NVPROF, re.compile(r"^(?:Type\x1f)?Time\(%\)\x1fTime\x1fCalls\x1fAvg\x1f")),
    (NVPROF_TRACE, re.compile(r"^Start\x1fDuration\x1f(?:Grid|Name)")),
    (TOTALS, re.compile(r"^Total HtoD Migration Size(?: ?\(\w+\))?\x1fTotal DtoH Migration")),
    (TRACE, re.compile(r"^Start \(\w+\)\x1f(?:End \(\w+\)\x1f)?Duration \(\w+\)\x1f")),
    (COUNTERS, re.compile(r"^(?:Device\x1fKernel\x1f)?Invocations\x1f(?:Event|Metric) Name\x1f")),
    (UNIFIED, re.compile(r"^(?:Device\x1f)?Count\x1fAvg Size\x1fMin Size\x1f")),
)  # fmt: skip
_COLUMN = re.compile(
    r"Type|Time ?\(%\)|(?:Total Time|Avg|Average|Med|Minimum|Min|Maximum|Max|StdDev|Total)"
    r"(?: \(\w+\))?|Time|Num Calls|Instances|Count|Operations|Calls|Style|Category|Name|Operation"
    r"|Range"
)
_LONGEST_HEADER = 400
_HEADS = ("Time", "Total", "Start", "Type", "Invocations", "Count", "Device")
# What a line holds that says anything: the others, of whatever program, are passed over.
_WORTH = re.compile(
    r"%|==|Executing|Statistics|Summary|/reports/|Generating|Collecting|nsys|Device|Host|Total"
    r"|Start|Count|Time|Type|Invocations|fault|thrash|throttle|result:|calls:|No kernels|Kernel: "
    r"|^\s*(?:\d+ +|\S\d* {3,})[a-z]|^ {4,}\d+ *$|\d[num]?s |\d[KMG]B |\",|,\""
)
_BEGUN = re.compile(r"^[\s|\"]*\d[\d,]*\.\d+[\s|\",]+\d")
_RULES = re.compile(r"^[\s|]*-{6,}[\s|]")
_FIGURES = re.compile(r" {2,}[\d.,]+(?= |$)")
_LEAST_FIGURES = 3
_ELIDED = re.compile(r"^[\s.…|:]*$")


# A header of nsys, though one of its columns is damaged.
_HEADS_LEFT = re.compile(
    r"Total Time|Total  ?\(\w+\)|Num Calls|Instances|\b(?:Avg|Med|Min|Max|StdDev) \(\w+\)"
    r"|\bAverage\b|\bMinimum\b|\bMaximum\b|Operations\b"
)
_CUT_HEAD = re.compile(r"^ *Time ?\(%\) {2,}Total Time")  # what only a header begins with
_LEAST_HEADS = 4  # of its columns


def is_headless(line: str) -> bool:
    """Whether a line that begins no table is a header all the same, with a damage."""
    return len(set(_HEADS_LEFT.findall(line))) >= _LEAST_HEADS or bool(_CUT_HEAD.match(line))


class Found(NamedTuple):
    """A table: its kind, the line of its header, its columns, and each row's cells."""

    kind: str
    at: int
    header: list[str]
    rows: list[list[str]]
    end: int  # the first line behind it
    is_csv: bool = False
    lost: int = 0  # lines that begin as a row does and are none


def find_table(lines: list[str], at: int) -> Found | None:
    """The table whose header is this line, or None."""
    plain = drop_marks(lines[at])
    if not plain.lstrip(" |\t\"'\ufeff").startswith(_HEADS):
        return None
    header = [cell.strip("\ufeff'") for cell in cut_cells(plain)]
    kind = _name_kind(header)
    if kind is None:
        # A page without its gaps: columns are told by what they are called.
        words = plain.strip(" |")
        header = _COLUMN.findall(words) if len(words) < _LONGEST_HEADER else []
        kind = _name_kind(header) if " ".join(header) == words else None
    if kind is None:
        return None
    if kind in (SUMS, SIZES, TRACE, TOTALS):
        rows, end, lost = _read_ruled(lines, at, header)
        return Found(kind, at, header, rows, end, is_csv(plain.strip()), lost)
    # nvprof's rows are told by themselves.
    return Found(kind, at, header, [], at + 1, is_csv(plain.strip()))


def _name_kind(header: list[str]) -> str | None:
    joined = "\x1f".join(header)
    return next((kind for kind, pattern in _FIRST if pattern.match(joined)), None)


def _read_ruled(lines: list[str], at: int, header: list[str]) -> tuple[list[list[str]], int, int]:
    """The rows below a header of nsys, the line behind them, and how many rows were not whole.

    Cells may be empty: they are cut where the dashes below the header stand, and where a line does
    not keep to these, at gaps. What stands below the last column alone goes on with its name.
    """
    rows: list[list[str]] = []
    columns: list[tuple[int, int]] = []
    number, lost = at + 1, 0
    while number < len(lines):
        line = drop_marks(lines[number])
        if is_rule(line):
            if rows:
                break
            columns = [found.span() for found in re.finditer(r"-+", line)]
        elif not line.strip(" |"):
            if rows:
                break
            if number > at + 3:
                break
        elif (cells := _cut_row(line, header, columns)) is not None:
            rows.append(cells)
        elif rows and _goes_on(line, header, columns):
            rows[-1][-1] = f"{rows[-1][-1]} {line.strip()}"
        elif _BEGUN.match(line):
            lost += 1
        elif not rows and _RULES.match(line):
            lost += 1  # dashes with something else in them: the rows below are told by gaps
        elif not _ELIDED.match(line):
            lost += len(_FIGURES.findall(line)) >= _LEAST_FIGURES  # a row that begins otherwise
            lost += bool(rows and columns and _is_first_cell(line, *columns[0]))
            break
        number += 1
    return rows, number, lost


def _cut_row(line: str, header: list[str], columns: list[tuple[int, int]]) -> list[str] | None:
    """A row's cells; None for a line that is none: its first cell is not a number."""
    if len(columns) == len(header) and _keeps_to(line, columns):
        ends = [end for _, end in columns[:-1]]
        cells = [line[a:b].strip() for a, b in zip([0, *ends], [*ends, len(line)], strict=True)]
    else:
        cells = cut_cells(line, len(header))
        if len(cells) != len(header):
            cells = line.split(None, len(header) - 1)
    if len(cells) != len(header) or not re.match(r"^\d[\d,]*(?:\.\d+)?%?$", cells[0]):
        return None
    return cells


def _keeps_to(line: str, columns: list[tuple[int, int]]) -> bool:
    """Whether a line is blank between all columns, and none of them is beyond its end."""
    is_blank = all(not line[a[1] : b[0]].strip() for a, b in pairwise(columns))
    return is_blank and len(line.rstrip()) > columns[-1][0] and "|" not in line[: columns[-1][0]]


def _is_first_cell(line: str, begin: int, end: int) -> bool:
    """Whether a line has a number alone, which ends where the first column does."""
    plain = line.rstrip()
    return len(plain) == end > begin and re.fullmatch(r"\s*\d+\.\d+", plain) is not None


def _goes_on(line: str, header: list[str], columns: list[tuple[int, int]]) -> bool:
    """Whether a line only stands below the last column: the rest of a name that was wrapped."""
    if len(columns) != len(header):
        return False
    return len(line) - len(line.lstrip()) >= columns[-1][0]


def list_tables(lines: list[str]) -> Iterator[Found | tuple[int, str]]:
    """The tables in their order, and between them each line that is of none, with its number."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if not _WORTH.search(line):
            at += 1
        elif (found := find_table(lines, at)) is not None:
            yield found
            at = found.end
        else:
            yield at, line
            at += 1
