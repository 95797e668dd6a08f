"""`xpu-smi dump`: a line for each Intel GPU, or tile of one, and again, with the metrics asked for.

The header names each column with its unit. "GPU Memory Utilization" is the part of the memory that
is in use, no utilization of its bandwidth, which has a column of its own (xpu-smi dump --help).
"""

from __future__ import annotations

import csv
import re

from sightline.errors import DamagedError
from sightline.importers._samples import (
    Samples,
    TimesOfDay,
    note_no_date,
    note_zone,
    read_time,
)
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

IMPORTER = Importer(
    name="xpu_smi",
    label="xpu-smi dump (CSV)",
    strong=(rb"\A(?:\xef\xbb\xbf)?Timestamp, ?DeviceId, ?(?:TileId, ?)?[A-Z]",),
    weak=(),
    looks_like="a header such as Timestamp, DeviceId, GPU Utilization (%)",
    suffixes=(".csv", ".txt", ".log"),
    version=1,
    source="https://intel.github.io/xpumanager/smi_user_guide.html",
)

_UNIT = re.compile(r"^(.*?) \(([^()]*)\)$")
_UNITS = {"Celsius Degree": "C", "Celsius": "C"}
_FORMS = ("%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%fZ")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where none has a number."""
    quality: list[Quality] = []
    try:
        rows = list(csv.reader(read_text(source, quality).splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it is no CSV ({error})") from error
    header = [cell.strip() for cell in rows[0]] if rows else []
    columns = [(found[1], found[2]) if (found := _UNIT.match(c)) else (c, "") for c in header]
    samples, bad, days, dated = Samples(), 0, TimesOfDay(), False
    for row in rows[1:]:
        cells = [cell.strip() for cell in row]
        if not cells or cells == header:
            continue
        told = dict(zip(header, cells, strict=False))
        device = told.get("DeviceId", "")
        if len(cells) != len(header) or not device.isdecimal() or len(device) > 4:
            bad += 1
            continue
        at = days.read(cells[0])
        if at is None:
            at, dated = read_time(cells[0], *_FORMS), True
        if at is None:
            bad += 1
            continue
        tile = told.get("TileId", "")
        place = f"tile {tile}" if tile.isdecimal() else None
        number = samples.number_device(device, int(device))
        for (name, unit), cell in zip(columns, cells, strict=True):
            if name not in ("Timestamp", "DeviceId", "TileId"):
                samples.add(name, cell, at, number, place, _UNITS.get(unit, unit))
    if not samples.rows:
        raise DamagedError(f"cannot read {source.given}", why="no line of it has a number")
    quality.append(note_zone() if dated else note_no_date())
    quality += note_bad_lines(bad, "lines of xpu-smi")
    return Imported(samples.tables("intel"), Recording("xpu-smi"), quality)
