"""A CSV file of AMD's profilers as texts, as far as it is intact."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable
from functools import partial

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.core.units import format_bytes
from sightline.errors import DamagedError
from sightline.formats._samples import note_ragged_lines
from sightline.formats._text_damage import note_foreign_bytes

# Of larger files, lines are not counted cell by cell, which takes a second for 100 MB.
_CHECKED_BYTES = 64 << 20


def read_table(
    source: Source, notes: list[Quality], is_number: Callable[[str], bool] | None = None
) -> pl.DataFrame:
    """A file's rows as texts; what is left out of it is added to the notes.

    Columns that `is_number` knows by their names are float64 where all their cells are numbers.
    Raises DamagedError where it is larger than what is read whole.
    """
    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES + 1)
    if len(data) > WHOLE_BYTES:
        raise DamagedError(
            f"cannot read {source.path.name}",
            why=f"it has more than {format_bytes(WHOLE_BYTES)}, and must be read whole",
        )
    # A last line without its end may be cut within its last number, which nothing shows.
    if not data.endswith(b"\n"):
        last = data[data.rfind(b"\n") + 1 :]
        fields = data.partition(b"\n")[0].count(b",")
        is_short = damage is not None or last.count(b",") < fields
        text = "its last line is cut off, and left out" if is_short else "its last line may be cut"
        notes.append(Quality("truncated", "warning", f"{source.path.name}: {text}"))
        data = data[: len(data) - len(last)] if is_short else data
    try:
        rows = _read_intact(data, is_number)
    except pl.exceptions.PolarsError:  # a quote that is damaged; Python's reader takes any
        rows = _read_damaged(data)
        text = (
            f"{source.path.name} is damaged: only lines with as many cells as its header are read"
        )
        notes.append(Quality("damaged_lines", "warning", text))
    notes += _compare_lengths(data, source.path.name)
    if len(data) <= _CHECKED_BYTES:
        notes += note_ragged_lines(data.decode("utf-8", "replace"))
        notes += note_foreign_bytes(data)
    notes += _note_odd_cells(rows, is_number, source.path.name)
    is_blank = rows.select(pl.all_horizontal(pl.all().is_null())).to_series()
    return rows.filter(~is_blank) if is_blank.any() else rows


def _note_odd_cells(
    rows: pl.DataFrame, is_number: Callable[[str], bool] | None, name: str
) -> list[Quality]:
    """A note on cells of columns of numbers that are none, where others of the column are."""
    if is_number is None:
        return []
    return note_odd_numbers(rows, [c for c in rows.columns if is_number(c)], name)


def note_odd_numbers(
    rows: pl.DataFrame, columns: Iterable[str], name: str, whole: Collection[str] = ()
) -> list[Quality]:
    """The same of columns that are named, of which some have whole numbers alone."""
    odd = 0
    for column in columns:
        cells = rows.get_column(column)
        dtype = pl.Int64() if column in whole else pl.Float64()
        read = cells.cast(dtype, strict=False)
        numbers = int((read.is_finite() & ((read >= 0) | (column not in whole))).sum())
        there = cells.len() if numbers else cells.len() - cells.null_count()
        odd += there - numbers
    text = f"{name}: cells of numbers are not numbers: they are left out"
    return [Quality("damaged_values", "warning", text, odd)] if odd else []


def _compare_lengths(data: bytes, name: str) -> list[Quality]:
    """A note where the first row has fewer values than the header names (rocprofiler #144)."""
    first = data[:65_536].decode("utf-8", "replace").replace("\0", "").splitlines()[:2]
    if first and first[0].count('"') % 2:
        text = f"{name}: its header has a quotation that does not end: it is damaged"
        return [Quality("damaged_header", "error", text)]
    try:
        lengths = [len(fields) for fields in csv.reader(first)]
    except csv.Error:
        return []
    if len(lengths) < 2 or lengths[0] == lengths[1] or not lengths[1]:
        return []
    if lengths[0] < lengths[1]:
        text = f"{name}: its header names fewer columns than its rows have: it is damaged"
        return [Quality("damaged_header", "error", text)]
    text = (
        f"{name}: its rows have {lengths[1]} values, its header names {lengths[0]} columns: the "
        "last columns are missing, or each value is under another's name"
    )
    return [Quality("short_rows", "error", text, None, "Record with rocprofv3.")]


def _read_intact(data: bytes, is_number: Callable[[str], bool] | None) -> pl.DataFrame:
    """The rows. Raises PolarsError where they are damaged."""
    read = partial(
        pl.read_csv, data, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy"
    )
    columns = read(n_rows=0).columns if is_number else []
    numbers = {c: pl.Float64() for c in columns if is_number and is_number(c)}
    try:
        return read(schema_overrides=numbers)
    except pl.exceptions.PolarsError:
        return read()


def _read_damaged(data: bytes) -> pl.DataFrame:
    """The lines that have as many fields as the first, as texts."""
    lines = csv.reader(data.decode("utf-8", "replace").replace("\0", "").splitlines())
    names: list[str] = []
    rows = []
    while True:
        try:
            fields = next(lines)
        except StopIteration:
            break
        except csv.Error:  # a field of more than 128 kB
            continue
        if not names:
            names = [f"{name}_{i}" if name in fields[:i] else name for i, name in enumerate(fields)]
        elif len(fields) == len(names):
            rows.append(fields)
    return pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")
