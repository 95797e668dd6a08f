"""The lines of likwid-perfctr: tables as text and as CSV, and rows of its timeline.

As likwid's sources write them (likwid.lua: printOutput, printtable, printcsv; likwid-perfctr.lua),
from its version 4 on, which calls a hardware thread a core and writes units without brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sightline.formats._samples import is_odd, read_number

_TABLE = re.compile(
    r"TABLE,(?:Region (?P<region>.{1,400}),)?Group (?P<number>\d{1,4}) (?P<kind>Raw|Metric)"
    r"(?P<sums> STAT)?,(?P<group>[^,]{1,200}),(?P<rows>\d{1,6})(?:,0)?,*"
)
_GROUP = re.compile(
    r"(?:Region (?P<region>.{1,400}), )?Group (?P<number>\d{1,4}): (?P<group>\S{1,200})"
)
_THREADS = re.compile(r"# (?:HWThreads|Cores): ?(?P<threads>\d{1,5}(?:\|\d{1,5})*)")
_NAMES = re.compile(
    r"# GID\|(?:Metrics|Event)Count\|CpuCount\|Total runtime \[s\](?:\|(?P<names>.+))?"
)
_BEGINS = re.compile(r"# (?:HWThreads|Cores|GID)\b|TABLE,|(?:Region .+, )?Group \d{1,4}:")
_BORDER = re.compile(r"\+-[-+]*-\+")
_COLUMN = re.compile(r"(?:HWThread|Core|GPU) (\d{1,5})")
_HEADS = ("Region Info", "Event", "Metric")
_OF_REGIONS = ("RDTSC Runtime [s]", "call count")
# A row of the timeline behind what the program wrote without an end of its line.
_ROW = re.compile(
    r"(?:^|\D)(\d{1,4}(?P<by>[ ,])\d{1,4}(?P=by)\d{1,5}(?P=by)\d+\.[\d.e+-]+(?:(?P=by)[\w.+-]+)*)$"
)
_BEGINS_ROW = re.compile(r"(\d{1,4})[ ,](\d{1,4})[ ,](\d{1,5})(?:[ ,]|$)")
# The first columns of a row of the timeline: the group, its metrics, its threads, the time.
_BEFORE = 4
_MOST_S = 2.0**31  # 68 years


@dataclass
class Block:
    """What was measured of a group of counters, of one region where there are regions.

    `cells`: texts by name and counter, one for each of `columns`, which say what each is of.
    """

    region: str | None
    number: int
    columns: list[str] = field(default_factory=list)
    cells: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)  # which of CSV's were there

    @property
    def uncounted(self) -> set[str]:
        """The columns with an event that likwid did not count, and writes a dash of."""
        return {
            column
            for (_, counter), texts in self.cells.items()
            for column, text in zip(self.columns, texts, strict=True)
            if counter and text == "-"
        }

    def find_runtime(self, column: str) -> float | None:
        """How long it was measured on a thread, in s."""
        for name in ("RDTSC Runtime [s]", "Runtime (RDTSC) [s]"):
            for (own, _), texts in self.cells.items():
                if own == name and column in self.columns:
                    found = read_seconds(texts[self.columns.index(column)])
                    if found is not None:
                        return found
        return None


@dataclass(frozen=True)
class Row:
    """A row of a timeline: when, in s since its start, and texts by thread and metric."""

    time_s: float
    values: list[tuple[int, str, str]]


def read_seconds(text: str) -> float | None:
    """A length that can be; None of others."""
    found = read_number(text)
    return found[0] if found is not None and 0 <= found[0] < _MOST_S else None


class Reader:
    """Takes line by line; what was read is in `blocks`, `rows` and `bad`."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.rows: list[Row] = []
        self.bad = 0  # lines of tables, or of a timeline, that are not whole
        self._block: Block | None = None
        self._left = 0  # rows that the table's first line promises, of CSV
        self._columns: list[str] | None = None  # of the table that is being read
        self._head, self._kind = "", ""
        self._is_sum = False
        self._is_csv = False
        self._threads: list[int] = []
        self._names: dict[int, list[str]] = {}
        self._in_timeline = False
        self._borders = -1  # of a drawn table that were there: below 0 there is none

    def take(self, line: str) -> None:
        """A line of any kind; those of the program that was measured are none of ours."""
        text = line.strip()
        if match := _TABLE.fullmatch(text):
            self._begin(match, is_csv=True)
            self._left = int(match["rows"])
            if match["sums"]:
                self._block = None
        elif match := _GROUP.fullmatch(text):
            self._begin(match, is_csv=False)
        elif _BEGINS.match(text):
            self._take_head(text)
        elif self._in_timeline and (row := _ROW.search(text)) and self._take_row(row[1]):
            pass
        elif self._in_timeline and (row := _BEGINS_ROW.match(text)) and self._is_row(row):
            self.bad += 1
        elif self._is_csv:
            cells = [cell.strip() for cell in text.split(",")]
            # Of a table whose first line is damaged, its second one is still to be seen.
            if self._left or cells[0] in _HEADS:
                self._take_cells(cells)
        else:
            self._take_drawn(text)

    def _take_drawn(self, text: str) -> None:
        """A line of a table that is drawn with signs, or one of the program's."""
        is_border = _BORDER.fullmatch(text) is not None
        if is_border and self._borders < 0:
            self._borders, self._columns, self._is_sum = 0, None, True
        if self._borders < 0:
            return
        if is_border:
            self._borders = -1 if self._borders == 2 else self._borders + 1
        elif len(text) > 1 and text.startswith("|") and text.endswith("|"):
            self._take_cells([cell.strip() for cell in text.strip("|").split("|")])
        else:
            self.bad += 1

    def end(self) -> None:
        """All lines were taken."""
        self._note_missing()
        self.bad += self._borders >= 0

    def _begin(self, match: re.Match[str], *, is_csv: bool) -> None:
        self._note_missing()
        key = match["region"], int(match["number"])
        last = self.blocks[-1] if self.blocks else None
        self._kind = match["kind"] if is_csv else ""
        table = f"{match['kind']}{match['sums'] or ''}" if is_csv else ""
        if last is None or (last.region, last.number) != key or table in last.tables or not table:
            self.blocks.append(Block(*key))
        self.blocks[-1].tables.add(table)
        self.bad += self._borders >= 0
        self._borders = -1
        self._block, self._is_csv, self._columns = self.blocks[-1], is_csv, None

    def _note_missing(self) -> None:
        self.bad += self._left if self._block is not None else 0
        self._left = 0

    def _take_cells(self, cells: list[str]) -> None:
        block = self._block
        if cells[0] in _HEADS:
            self._take_columns(cells)
            return
        if self._head != "Region Info":
            self._left -= self._is_csv
        elif cells[0] not in _OF_REGIONS:
            self.bad += 1
            return
        if block is None:
            return
        if self._columns is None:
            self.bad += not self._is_sum
            return
        before = 2 if self._head == "Event" else 1
        own = cells[before : before + len(self._columns)]
        rest = cells[before + len(self._columns) :]
        if len(own) < len(self._columns) or any(rest) or not all(own) or any(map(is_odd, own)):
            self.bad += 1
            return
        block.cells[cells[0], cells[1] if before == 2 else ""] = own

    def _take_columns(self, cells: list[str]) -> None:
        self._head = cells[0]
        names = [name for name in cells[2 if cells[0] == "Event" else 1 :] if name]
        self._columns, self._is_sum = None, names[:1] == ["Sum"]
        if self._is_csv and self._kind != ("Metric" if cells[0] == "Metric" else "Raw"):
            self.bad += 1
        if self._block is None or self._is_sum:
            return
        if not names or not all(_COLUMN.fullmatch(name) for name in names):
            self.bad += 1
            return
        self._columns = names
        if not self._block.columns:
            self._block.columns = names
        elif self._block.columns != names:
            self.bad += 1
            self._columns = None

    def _take_head(self, text: str) -> None:
        if match := _THREADS.fullmatch(text):
            self._threads, self._names = [int(n) for n in match["threads"].split("|")], {}
        elif match := _NAMES.fullmatch(text):
            names = (match["names"] or "").split("|")
            self.bad += any("]" in name.rstrip("]") for name in names)  # another line's behind it
            self._names[len(self._names) + 1] = names
        else:
            self.bad += 1
        self._in_timeline = self._in_timeline or text.startswith("#")

    def _is_row(self, begin: re.Match[str]) -> bool:
        names = self._names.get(int(begin[1]))
        return names is not None and (int(begin[2]), int(begin[3])) == (
            len(names), len(self._threads),
        )  # fmt: skip

    def _take_row(self, text: str) -> bool:
        cells = text.split("," if "," in text else " ")
        group, metrics, threads = (int(cell) for cell in cells[:3])
        names, at = self._names.get(group), read_seconds(cells[3])
        values = cells[_BEFORE:]
        # Others may be lines of the program that begin with three numbers.
        is_row = names is not None or len(values) == metrics * threads > 0
        is_whole = names is not None and len(values) == len(names) * len(self._threads)
        if (
            not is_whole
            or at is None
            or (metrics, threads) != (len(names or ()), len(self._threads))
        ):
            self.bad += is_row
            return is_row
        names = names or []
        self.bad += any(not value or is_odd(value) for value in values)
        pairs = [(thread, name) for name in names for thread in self._threads]
        named = [(*pair, value) for pair, value in zip(pairs, values, strict=True)]
        self.rows.append(Row(at, named))
        return True
