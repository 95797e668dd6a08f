"""`xpu-smi dump`: a line for each Intel GPU, or tile of one, and again, with the metrics asked for.

The header names each column with its unit. "GPU Memory Utilization" is the part of the memory that
is in use, no utilization of its bandwidth, which has a column of its own (xpu-smi dump --help).
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import (
    Cell,
    Samples,
    TimesOfDay,
    note_no_date,
    note_zone,
    read_csv_texts,
    read_time,
)
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="xpu_smi",
    label="xpu-smi dump (CSV)",
    strong=(rb"\A(?:\xef\xbb\xbf)?Timestamp, ?DeviceId, ?(?:TileId, ?)?[A-Z]",),
    weak=(),
    looks_like="a header such as Timestamp, DeviceId, GPU Utilization (%)",
    suffixes=(".csv", ".txt", ".log"),
    version=3,
    source="https://intel.github.io/xpumanager/smi_user_guide.html",
)

_WHO = {"Timestamp", "DeviceId", "TileId"}
_UNIT = re.compile(r"^(.*?) \(([^()]*)\)$")
_UNITS = {"Celsius Degree": "C", "Celsius": "C"}
_FORMS = ("%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%fZ")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where none has a number."""
    quality: list[Quality] = []
    header, _, lines_of_text = read_text(source, quality).partition("\n")
    titles = ",".join(title.strip() for title in header.split(","))
    try:
        table = read_csv_texts(f"{titles}\n{lines_of_text}", quality, quote=None)
    except ValueError as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it is not CSV ({error})") from error
    if not {"Timestamp", "DeviceId"} <= set(table.columns):
        raise DamagedError(f"cannot read {source.given}", why="its header has no DeviceId")
    lines = table.with_columns(pl.col(*_WHO & set(table.columns)).str.strip_chars()).filter(
        pl.col("DeviceId") != "DeviceId"  # the header again
    )
    days = TimesOfDay()
    times = [days.read(text or "") for text in lines.get_column("Timestamp").to_list()]
    dated = all(at is None for at in times)
    if dated:
        times = [read_time(text or "", *_FORMS) for text in lines.get_column("Timestamp").to_list()]
    tile = pl.col("TileId") if "TileId" in lines.columns else pl.lit(None, pl.String)
    whole = lines.with_columns(
        time_ns=pl.Series(times, dtype=pl.Int64),
        source=pl.when(tile.str.contains(r"^\d{1,4}$")).then(pl.lit("tile ") + tile),
    ).filter(
        pl.col("time_ns").is_not_null(),
        pl.col("DeviceId").str.contains(r"^\d{1,4}$"),
        pl.col(lines.columns[-1]).is_not_null(),
    )
    samples = Samples(always_says=True)
    devices = {
        text: samples.number_device(text, int(text))
        for text in whole.get_column("DeviceId").unique(maintain_order=True).to_list()
    }
    number = pl.col("DeviceId").replace_strict(devices, default=None, return_dtype=pl.Int64)
    columns = {name: _describe(name) for name in lines.columns if name not in _WHO}
    samples.add_table(whole.with_columns(device_id=number), columns)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no line of it has a number")
    quality.append(note_zone() if dated else note_no_date())
    quality += samples.note_gaps()
    quality += note_bad_lines(lines.height - whole.height, "lines of xpu-smi")
    return Imported(samples.tables("intel"), Recording("xpu-smi"), quality)


def _describe(column: str) -> Cell:
    found = _UNIT.match(column)
    return Cell(found[1], _UNITS.get(found[2], found[2])) if found else Cell(column)
