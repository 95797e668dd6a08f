"""What readers of monitoring logs share: values with their units, to rows of `counters`."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import NamedTuple

import polars as pl

from sightline.core.metric_names import name_metric
from sightline.core.model.declare import Quality
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.formats._text_damage import note_names, note_odd_header

# '70.10 W', '1410 MHz', '16x', '100', '0x0000000000000004', '(500Mhz)'.
_NUMBER = re.compile(
    r"^\(?\s*(?:(0x[0-9a-fA-F]{1,16})|([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?))\s*([A-Za-z%/]*)\s*\)?$",
    re.ASCII,
)
# DCGM's ways to write that there is no value: of int64 (and more), of int32 and of doubles
# (dcgm_structs.h, DCGM_INT64_BLANK and the three after each).
BLANK = 0x7FFFFFFFFFFFFFF0
BLANKS = [base + n for base in (2147483632.0, 140737488355328.0) for n in range(4)]
_UNITS = {"Mhz": "MHz", "Celsius": "C", "watt": "W"}
_SCHEMA = {
    "metric": pl.String, "unit": pl.String, "device_id": pl.Int64, "source": pl.String,
    "from_ns": pl.Int64, "time_ns": pl.Int64, "value": pl.Float64,
}  # fmt: skip
_TIME_OF_DAY = re.compile(r"^(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?$")
_LINES_AT_ONCE = 50_000  # bounds what a day's log needs beside its table
_HALF_DAY_NS = 12 * 3600 * 10**9
_ZONE = "times have no zone: they are taken as UTC"


class Cell(NamedTuple):
    """A column of a log: its tool's name and unit, and what of a device it is of, if it says so."""

    peer: str
    unit: str = ""
    source: str | None = None


@dataclass
class Samples:
    """Rows of `counters`, and the devices that they are of.

    `always_says`: the tool writes a word where there is no value (N/A), never nothing or NaN.
    """

    devices: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    _rows: list[tuple[str, str, int | None, str | None, int | None, int, float]] = field(
        default_factory=list
    )
    _columns: list[pl.DataFrame] = field(default_factory=list)
    # By what a tool calls it: texts that are no number, and how many numbers it had.
    _odd: Counter[str] = field(default_factory=Counter)
    _silent: int = 0  # cells in which a tool that always says something says nothing
    _read: set[str] = field(default_factory=set)
    always_says: bool = False

    def number_device(self, known_as: str, number: int | None = None) -> int:
        """A device's number: its own, else in the order in which they come."""
        if known_as not in self.devices:
            taken = set(self.devices.values())
            free = next(n for n in range(len(taken) + 1) if n not in taken)
            self.devices[known_as] = free if number is None or number in taken else number
        return self.devices[known_as]

    def add(
        self,
        peer: str,
        text: str | float,
        time_ns: int,
        device: int | None = None,
        source: str | None = None,
        unit: str = "",
        from_ns: int | None = None,
    ) -> bool:
        """A value as a tool prints it; no row, and False, where it is not a number."""
        found = read_number(text) if isinstance(text, str) else (float(text), "")
        if abs(time_ns) > INT64_MAX:  # the year 29926 is none
            self._silent += 1
            return False
        if found is None or not math.isfinite(found[0]):
            # Where the unit is known, it is a number, though nothing else of its name is one.
            is_broken = unit != "" and _BROKEN_DIGITS.match(str(text).strip()) is not None
            self._silent += is_broken
            self._odd[peer] += not is_broken and self._is_odd(str(text))
            return False
        self._read.add(peer)
        value, own = found
        name, ours, scale = name_metric(peer, own or unit)
        place = None if source is None else replace_surrogates(source)
        name, ours = replace_surrogates(name), replace_surrogates(ours)
        self._rows.append((name, ours, device, place, from_ns, time_ns, value * scale))
        if len(self._rows) >= _LINES_AT_ONCE:
            self._pack_rows()
        return True

    def count_odd(self, peer: str, text: object) -> None:
        """Count a value that was not added, where it is not a tool's word for none."""
        self._odd[peer] += self._is_odd(str(text))

    def _is_odd(self, text: str) -> bool:
        if self.always_says and _SAYS_NOTHING.match(text):
            self._silent += 1
            return False
        found = is_odd(text)
        if found and _BROKEN.match(text.strip()):  # of any metric, though it has no other number
            self._silent += 1
            return False
        # Of a metric that has no other number it is one all the same, if it has a digit.
        self._silent += found and self.always_says and _DIGIT.search(text) is not None
        return found and not (self.always_says and _DIGIT.search(text))

    def _pack_rows(self) -> None:
        """Columns take a third of the memory that tuples do."""
        self._columns.append(pl.DataFrame(self._rows, schema=_SCHEMA, orient="row"))
        self._rows.clear()

    def add_columns(self, cells: pl.DataFrame, said: pl.DataFrame) -> None:
        """Many values as a tool prints them, a row each; those that are not numbers are left out.

        cells: time_ns, device_id, source, and in `said` the row of what is said: peer (the tool's
        name), text, and the unit where the text has none.
        """
        self._pack_rows()
        number, own = parse_numbers(said.get_column("text"))
        kinds = said.select("peer", unit=pl.when(own == "").then("unit").otherwise(own))
        different = kinds.unique(maintain_order=True)
        named = [name_metric(peer, unit) for peer, unit in different.iter_rows()]
        places = different.with_columns(
            place=pl.int_range(pl.len(), dtype=pl.UInt32),
            scale=pl.Series([scale for _, _, scale in named], dtype=pl.Float64),
        )
        told = kinds.join(places, on=["peer", "unit"], maintain_order="left")
        row = cells.get_column("said")
        place = told.get_column("place").gather(row)
        names, units = (pl.Series([one[k] for one in named], dtype=pl.String) for k in (0, 1))
        found = cells.select(
            metric=names.gather(place),
            unit=units.gather(place),
            device_id="device_id",
            source="source",
            from_ns=pl.lit(None, pl.Int64),
            time_ns="time_ns",
            value=(number * told.get_column("scale")).gather(row),
        )
        used = cells.get_column("said").unique()  # headers are said, too
        self._note_cells(
            *(
                column.gather(used)
                for column in (said.get_column("peer"), said.get_column("text"), number)
            )
        )
        is_number = found.get_column("value").is_finite().fill_null(False)
        self._columns.append(found if is_number.all() else found.filter(is_number))

    def add_grid(
        self,
        rows: pl.DataFrame,
        texts: dict[str, pl.Series],
        measured: dict[str, tuple[str, str]],
    ) -> None:
        """The same of lines that hold several values each, in their order.

        Columns: time_ns, device_id, and those of `measured` (with their name and unit), which hold
        rows of their `texts`.
        """
        if not measured or rows.is_empty():
            return
        said = pl.concat(
            texts[column].to_frame("text").with_columns(peer=pl.lit(peer), unit=pl.lit(unit))
            for column, (peer, unit) in measured.items()
        )
        first = [0, *accumulate(texts[column].len() for column in measured)]
        codes = pl.concat(
            rows.get_column(column).cast(pl.UInt32) + begin
            for column, begin in zip(measured, first, strict=False)
        )
        # From one column after the other to one line after the other.
        cell = pl.int_range(codes.len(), dtype=pl.UInt32, eager=True)
        line, place = cell // len(measured), cell % len(measured)
        cells = pl.DataFrame(
            {
                "said": codes.gather(place * rows.height + line),
                "time_ns": rows.get_column("time_ns").gather(line),
                "device_id": rows.get_column("device_id").gather(line),
            }
        ).with_columns(source=pl.lit(None, pl.String))
        self.add_columns(cells, said)

    def add_table(self, rows: pl.DataFrame, columns: Mapping[str, Cell]) -> None:
        """A table as a tool prints it, line by line; cells that are not numbers are left out.

        `rows` has time_ns, device_id and source (of the line), and texts in `columns`.
        """
        self._pack_rows()
        for part in rows.iter_slices(_LINES_AT_ONCE) if columns else ():
            numbered = part.with_row_index("row")
            found = [
                _name_cells(
                    numbered.select(
                        "row",
                        "time_ns",
                        "device_id",
                        source=pl.coalesce("source", pl.lit(cell.source, pl.String)),
                        peer=pl.lit(cell.peer),
                        unit=pl.lit(cell.unit),
                        text=pl.col(column).cast(pl.String),
                    ),
                    self._note_cells,
                )
                for column, cell in columns.items()
            ]
            in_order = pl.concat(found).sort("row", maintain_order=True)
            self._columns.append(in_order.select(list(_SCHEMA)))

    def _note_cells(self, peers: pl.Series, texts: pl.Series, numbers: pl.Series) -> None:
        """Count the cells that are neither a number nor a tool's word for none."""
        is_number = numbers.is_finite().fill_null(False)
        self._read.update(peers.filter(is_number).unique().to_list())
        for peer, text in zip(peers.filter(~is_number), texts.filter(~is_number), strict=True):
            self._odd[peer] += text is None or self._is_odd(text)

    def note_gaps(self) -> list[Quality]:
        """Notes on names that are damaged, and on cells without a number of metrics that have some.

        A metric whose cells are all words is not a measurement, and no loss.
        """
        bad = sum(count for peer, count in self._odd.items() if peer in self._read) + self._silent
        names = {*self._read, *self._odd}
        notes = note_names(sum(name.count("(") != name.count(")") for name in names))
        if not bad:
            return notes
        text = "values are not numbers where others of the same name are: they were left out"
        return [*notes, Quality("damaged_values", "warning", text, bad)]

    def has_values(self) -> bool:
        """Whether any value was a number."""
        return bool(self._rows) or any(frame.height for frame in self._columns)

    def tables(self, vendor: str | None) -> dict[str, pl.DataFrame]:
        """`counters` in order of time, and `devices`."""
        self._pack_rows()
        counters = pl.concat(self._columns)
        self._columns.clear()
        if not counters.get_column("time_ns").is_sorted():
            counters = counters.sort("time_ns", maintain_order=True)
        used = counters.get_column("device_id").drop_nulls().unique().to_list()
        numbers = sorted({*used, *self.names})
        devices = {
            "device_id": numbers,
            "vendor": [vendor] * len(numbers),
            "name": [
                replace_surrogates(self.names[number]) if number in self.names else None
                for number in numbers
            ],
        }
        return {
            "counters": counters,
            "devices": pl.DataFrame(
                devices, schema={"device_id": pl.Int64, "vendor": pl.String, "name": pl.String}
            ),
        }


def _name_cells(
    cells: pl.DataFrame, note: Callable[[pl.Series, pl.Series, pl.Series], None]
) -> pl.DataFrame:
    """The cells that are numbers, with their metric, unit and value here."""
    key = ["peer", "unit", "text"]
    different = cells.select(key).unique()
    value, unit = parse_numbers(different.get_column("text"))
    note(different.get_column("peer"), different.get_column("text"), value)
    named = [
        name_metric(peer, own or unit)
        for (peer, unit, _), own in zip(different.iter_rows(), unit, strict=True)
    ]
    known = different.with_columns(
        metric=pl.Series([name for name, _, _ in named], dtype=pl.String),
        ours=pl.Series([ours for _, ours, _ in named], dtype=pl.String),
        value=value * pl.Series([scale for _, _, scale in named], dtype=pl.Float64),
    ).filter(pl.col("value").is_finite())
    return (
        cells.join(known, on=key, maintain_order="left")
        .drop("text", "peer", "unit")
        .rename({"ours": "unit"})
        .with_columns(from_ns=pl.lit(None, pl.Int64))
    )


# What tools write where there is no value: nvidia-smi, rocm-smi and amd-smi, dcgmi, xpu-smi.
_NO_VALUE = re.compile(
    r"^[\[(]?\s*(?:|n/?a|-+|none|null|nan|[-+]?inf|no data|unknown.*|err!?|error|deprecated|in use"
    r"|not (?:supported|available|active|found|applicable).*|gpu (?:is lost|requires reset).*"
    r"|insufficient.*|disabled|enabled|on|off|unsupported|function not found"
    r"|requested functionality.*)\s*[\])]?\.?$",
    re.IGNORECASE,
)


# A number with its unit, in which one character became another: 14-0 MHz. Or digits of another
# value behind the word for none: N/A1085.
_BROKEN = re.compile(
    r"^(?:(?:\d+[^\d\s.,]\d*|\d*[^\d\s.,]\d+|\d+\.\d*[^\d\s,]\d*) ?"
    r"(?:[MG]Hz|[KMG]i?B|[mk]?W|C|V|mV|%|J)|[\[(]?[Nn]/[Aa][\])]?\d+)$",
    re.ASCII,
)
_BROKEN_DIGITS = re.compile(r"^(?=\S*\d)[\d.]*[^\d\s,]?[\d.]*$", re.ASCII)
_DIGIT = re.compile(r"^[\w.]*[0-9][\w.]*-?$", re.ASCII)  # a word with a digit, and no list
_SAYS_NOTHING = re.compile(r"^\s*(?:nan|[-+]?inf)?\s*$", re.IGNORECASE)
_MARKS = (".", "(", "[", ")", "]")  # alone they are no word
_LEVEL = re.compile(r"^\d+ \(.+\)$")  # 0 (300Mhz): the number of a state, and what it is


def is_odd(text: str) -> bool:
    """Whether a text is neither a number nor a tool's word for a value that there is not.

    Nor are digits of a number that no double holds.
    """
    plain = text.strip()
    found = read_number(plain)
    if found is not None:
        return not math.isfinite(found[0])
    return not (_NO_VALUE.match(plain) or _LEVEL.match(plain)) or plain in _MARKS


def read_number(text: str) -> tuple[float, str] | None:
    """A number and its unit; None for 'N/A', '[Not Supported]' and other texts: none is not a 0."""
    found = _NUMBER.match(text.strip())
    if found is None:
        return None
    bits, number, unit = found.groups()
    return (float(int(bits, 16)) if bits else float(number)), _UNITS.get(unit, unit)


def parse_numbers(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """What read_number says of each: the number, null for none, and its unit, "" for none."""
    plain = texts.str.strip_chars().str.splitn(" ", 2).struct
    value = plain.field("field_0").cast(pl.Float64, strict=False)
    unit = plain.field("field_1").fill_null("")
    # Nearly all are a number and perhaps its unit: the others need a closer look.
    units = unit.unique()
    known = units.filter(units.str.contains(r"^[A-Za-z%/]*$"))
    odd = ~(value.is_finite().fill_null(False) & unit.is_in(known.implode()))
    if odd.any():
        number, own = _parse_odd_numbers(texts.filter(odd))
        place = odd.arg_true()
        value, unit = value.scatter(place, number), unit.scatter(place, own)
    return value, unit.replace(_UNITS)


def _parse_odd_numbers(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    found = texts.str.strip_chars().str.extract_groups(_NUMBER.pattern).struct.unnest()
    bits, number, unit = found.get_columns()
    whole = bits.str.strip_prefix("0x").str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    value = number.cast(pl.Float64, strict=False)
    return value.fill_null(whole.cast(pl.Float64)), unit.fill_null("")


def read_time(text: str, *forms: str) -> int | None:
    """A moment in ns since 1970, by the first form that fits; without a zone it is UTC.

    None also for a moment that no column of ns holds (before 1677, after 2262).
    """
    for form in forms:
        try:
            moment = datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        whole = moment.replace(microsecond=0)
        ns = int(whole.timestamp()) * 10**9 + moment.microsecond * 1000
        return ns if abs(ns) <= INT64_MAX else None
    return None


def count_rounds(devices: Iterable[str | None]) -> pl.Series:
    """Where no time was logged: ns, a second for each round, in which each device comes once.

    A line of nobody is a round of its own.
    """
    rounds, seen, found = 0, set[str | None](), []
    for device in devices:
        if device in seen or not device:
            rounds, seen = rounds + bool(seen), set()
        seen.add(device)
        found.append(rounds * 10**9)
    return pl.Series(found, dtype=pl.Int64)


def read_csv_texts(text: str, quality: list[Quality], *, quote: str | None = '"') -> pl.DataFrame:
    """A table with a header, all cells as texts; null where a line is too short.

    Lines that are longer or shorter are noted. Raises ValueError where it is not a table.
    """
    quality += note_ragged_lines(text, quote)
    try:
        return pl.read_csv(
            text.encode(), infer_schema=False, truncate_ragged_lines=True, quote_char=quote
        )
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error).splitlines()[0]) from error


def note_ragged_lines(text: str, quote: str | None = '"') -> list[Quality]:
    """Notes on lines of a table with another number of cells than its first, and on that."""
    lines = text.rstrip().splitlines()  # blank ones behind the last are nothing
    if quote is None or quote not in text:
        counts = [line.count(",") for line in lines]
    else:
        try:
            counts = [len(cells) - 1 for cells in csv.reader(lines, quotechar=quote)]
        except csv.Error:
            return []
    notes = note_odd_header(lines[0]) if lines else []
    odd = sum(count != counts[0] for count in counts)
    if not odd:
        return notes
    text = (
        "lines differ from the first in their number of cells: cells are missing, or are two lines'"
    )
    return [*notes, Quality("ragged_lines", "warning", text, odd)]


class TimesOfDay:
    """Times without a date, in order: ns since the midnight before the first."""

    def __init__(self) -> None:
        self._days, self._last = 0, 0

    def read(self, text: str) -> int | None:
        """A time such as 23:59:59.250; one before the last is of the next day."""
        found = _TIME_OF_DAY.match(text.strip())
        if found is None:
            return None
        hours, minutes, seconds, part = found.groups()
        whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
        if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 60:
            return None
        at = whole * 10**9 + int((part or "").ljust(9, "0"))
        # Lines of one round may be swapped by a moment; a clock that was set back is no new day.
        self._days += at < self._last - _HALF_DAY_NS
        self._last = at
        return self._days * 2 * _HALF_DAY_NS + at


def note_no_date() -> Quality:
    """That times have no date."""
    text = "the log says the time of day and no date: its days count from 1970-01-01"
    return Quality("date_unknown", "info", text)


def note_zone() -> Quality:
    """That times have no zone."""
    return Quality("time_zone_unknown", "info", _ZONE)


def note_no_times(spacing_s: int) -> Quality:
    """That the log does not say when: its rows are taken to be so far apart; 0 for one reading."""
    if spacing_s:
        text = f"the log does not say when: its readings are taken as {spacing_s} s apart"
        return Quality("times_missing", "warning", text)
    return Quality("times_missing", "info", "the file does not say when its values were read")
