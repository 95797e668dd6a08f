"""The log of Intel Power Gadget: a line for each reading of a host's CPU packages.

Columns end with the package's number and a unit, Processor Power_0(Watt). Times are those of the
day, with milliseconds after a third colon. Behind the readings may stand a summary.
"""

from __future__ import annotations

import csv
import re

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, TimesOfDay, note_no_date
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import note_names, note_odd_header

IMPORTER = Importer(
    name="power_gadget",
    label="Intel Power Gadget (CSV)",
    strong=(rb"\A(?:\xef\xbb\xbf)?,?System Time,RDTSC,Elapsed Time ?\(sec\)",),
    weak=(),
    looks_like="the columns System Time, RDTSC, Elapsed Time (sec)",
    suffixes=(".csv",),
    version=4,
    source="https://www.intel.com/content/www/us/en/developer/articles/tool/power-gadget.html",
)

_COLUMN = re.compile(r"^(.*?)(?:_(\d{1,3}))? ?\(([^()]{1,20})\)$")
_TIME = re.compile(r"^(\d{1,2}:\d{2}:\d{2}):(\d{3})$")
# Column and unit: our name and unit, and whose it is. Others keep their names.
_NAMES = {
    ("Processor Power", "Watt"): ("power", "W", "package {}"),
    ("DRAM Power", "Watt"): ("power", "W", "DRAM {}"),
    ("Cumulative Processor Energy", "Joules"): ("energy", "J", "package {}"),
    ("Cumulative DRAM Energy", "Joules"): ("energy", "J", "DRAM {}"),
    ("Package Temperature", "C"): ("temperature", "C", "package {}"),
    ("CPU Utilization", "%"): ("CPU utilization", "%", "host"),
}
_TWICE = "mWh"  # the same energies as in joules


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines with a time. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    quality += note_odd_header(text.partition("\n")[0])
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it is not CSV ({error})") from error
    header = [cell.strip() for cell in rows[0]] if rows else []
    quality += note_names(sum(_is_odd(name) for name in header[1:]))
    samples, bad, days = Samples(always_says=True), 0, TimesOfDay()
    clock = header.index("System Time") if "System Time" in header else 0
    for row in rows[1:]:
        found = _TIME.match(row[clock].strip()) if len(row) > clock else None
        at = days.read(f"{found[1]}.{found[2]}") if found else None
        if at is None or len(row) != len(header):
            # A summary may stand behind the readings: names and values, with blanks around =.
            bad += bool(row) and " = " not in row[0]
            continue
        for column, cell in zip(header, row, strict=True):
            _add(samples, column, cell, at)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no line of it has a time")
    notes = [*note_bad_lines(bad, "readings of Power Gadget"), *samples.note_gaps()]
    quality += [note_no_date(), *notes]
    return Imported(samples.tables(None), Recording("Intel Power Gadget"), quality)


def _is_odd(name: str) -> bool:
    """Whether a column has no unit, as only the counter of cycles and the clock have none."""
    has_unit = name.endswith(")") or re.search(r"_\d+$", name)  # Package Hot_0 is a flag
    return bool(name) and not has_unit and name not in ("System Time", "RDTSC")


def _add(samples: Samples, column: str, cell: str, at: int) -> None:
    found = _COLUMN.match(column)
    if found is None or found[3] in (_TWICE, "sec"):
        return
    name, package, unit = found.groups()
    known = _NAMES.get((name, unit))
    if known:
        samples.add(known[0], cell, at, None, known[2].format(package or 0), known[1])
    else:
        samples.add(name, cell, at, None, f"package {package}" if package else "host", unit)
