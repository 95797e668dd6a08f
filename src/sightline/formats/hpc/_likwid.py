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
_COLUMN = re.compile(r"(?:HWThread|Core|GPU) (\d{1,5})")
_HEADS = ("Region Info", "Event", "Metric")
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
        self._head = ""
        self._is_csv = False
        self._threads: list[int] = []
        self._names: dict[int, list[str]] = {}

    def take(self, line: str) -> None:
        """A line of any kind; those of the program that was measured are none of ours."""
        text = line.strip()
        if text.startswith("TABLE,") and (match := _TABLE.fullmatch(text)):
            self._begin(match, is_csv=True)
            self._left = int(match["rows"])
            if match["sums"]:
                self._block = None
        elif match := _GROUP.fullmatch(text):
            self._begin(match, is_csv=False)
        elif text.startswith("# "):
            self._take_head(text)
        elif self._names and text[:1].isdigit() and self._take_row(text):
            pass
        elif self._is_csv and self._left:
            self._take_cells([cell.strip() for cell in text.split(",")])
        elif not self._is_csv and text.startswith("|"):
            self._take_cells([cell.strip() for cell in text.strip("|").split("|")])

    def end(self) -> None:
        """All lines were taken."""
        self._note_missing()

    def _begin(self, match: re.Match[str], *, is_csv: bool) -> None:
        self._note_missing()
        key = match["region"], int(match["number"])
        last = self.blocks[-1] if self.blocks else None
        table = f"{match['kind']}{match['sums'] or ''}" if is_csv else ""
        if last is None or (last.region, last.number) != key or table in last.tables or not table:
            self.blocks.append(Block(*key))
        self.blocks[-1].tables.add(table)
        self._block, self._is_csv, self._columns = self.blocks[-1], is_csv, None

    def _note_missing(self) -> None:
        self.bad += self._left if self._block is not None else 0
        self._left = 0

    def _take_cells(self, cells: list[str]) -> None:
        block = self._block
        if cells[0] in _HEADS:
            self._take_columns(cells)
            return
        if self._is_csv and cells[0] != "call count" and not cells[0].startswith("RDTSC Runtime"):
            self._left -= 1
        if block is None or self._columns is None:
            return
        before = 2 if self._head == "Event" else 1
        own = cells[before : before + len(self._columns)]
        rest = cells[before + len(self._columns) :]
        if len(own) < len(self._columns) or any(rest) or any(is_odd(text) for text in own):
            self.bad += 1
            return
        block.cells[cells[0], cells[1] if before == 2 else ""] = own

    def _take_columns(self, cells: list[str]) -> None:
        self._head = cells[0]
        names = [name for name in cells[2 if cells[0] == "Event" else 1 :] if name]
        self._columns = None
        if self._block is None or names[:1] == ["Sum"]:
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
            self._names[len(self._names) + 1] = names

    def _take_row(self, text: str) -> bool:
        cells = text.split("," if "," in text else " ")
        if len(cells) < _BEFORE or not all(cell.isdecimal() for cell in cells[:3]):
            return False
        group, metrics, threads = (int(cell) for cell in cells[:3])
        names, at = self._names.get(group), read_seconds(cells[3])
        values = cells[_BEFORE:]
        if names is None or len(values) != metrics * threads:
            self.bad += group in self._names
            return False
        if (metrics, threads) != (len(names), len(self._threads)) or at is None:
            self.bad += 1
            return True
        self.bad += any(is_odd(value) for value in values)
        pairs = [(thread, name) for name in names for thread in self._threads]
        named = [(*pair, value) for pair, value in zip(pairs, values, strict=True)]
        self.rows.append(Row(at, named))
        return True
