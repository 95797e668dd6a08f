"""What `nvidia-smi dmon`, `nvidia-smi pmon` and `dcgmi dmon` print: a line for each GPU, and again.

Lines that begin with # name the columns, and below them their units; nvidia-smi's -o adds date and
time. A dash and N/A are no value. dcgmi prints entities (GPU 0, GPU-I 3, CPU 0), and no time.
"""

from __future__ import annotations

import re

from sightline.errors import DamagedError
from sightline.importers._samples import (
    BLANK,
    BLANKS,
    Samples,
    TimesOfDay,
    note_no_date,
    note_no_times,
    note_zone,
    read_number,
    read_time,
)
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

IMPORTER = Importer(
    name="smi_dmon",
    label="nvidia-smi dmon, pmon and dcgmi dmon",
    strong=(
        rb"(?:\A|\n)#[ ]?(?:(?:Date +)?Time +)?gpu +"
        rb"(?:pwr|gtemp|sm|pid|fb|pclk|mclk|rxpci|pviol)\b",
        rb"(?:\A|\n)#Entity +[A-Z0-9#]{3,6}[^\n]*\nI[dD]\b",
    ),
    weak=(),
    looks_like="a header such as # gpu pwr gtemp, or #Entity SMACT",
    suffixes=(".txt", ".log", ".out"),
    version=2,
    source="https://docs.nvidia.com/deploy/nvidia-smi/ and DCGM's dcgmi dmon",
)

_ENTITY = re.compile(r"^(GPU-CI|GPU-I|GPU|CPU|Switch|Link|Core) (\d{1,4})\s")
_UNITS = {"MB/s": "", "MB": "MiB", "bool": ""}  # others are called as here


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines under a header. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    samples, bad, rounds = Samples(), 0, 0
    names: list[str] = []
    units: list[str] = []
    seen: set[str] = set()
    timed, dated, days = False, False, TimesOfDay()
    for line in read_text(source, quality).splitlines():
        words = line.lstrip("#").split()
        if not words or words[0] in ("ID", "Id"):
            continue
        if line.startswith("#"):
            if "gpu" in words[:3] or words[0] == "Entity":
                names, units = words, []
            elif not units:
                units = words
            continue
        entity = _ENTITY.match(line)
        cells = [entity[0].strip(), *line[entity.end() :].split()] if entity else words
        # The command of a process is left empty where there is none.
        needed = len(names) - (names[-1:] == ["command"])
        if not names or len(cells) < needed or bool(entity) != (names[0] == "Entity"):
            bad += bool(names)
            continue
        told = dict(zip(names, cells, strict=False))
        clock = told.get("Time", "")
        if "Date" in told:
            at, dated = read_time(f"{told['Date']} {clock}", "%Y%m%d %H:%M:%S"), True
        else:
            at = days.read(clock)
        timed = timed or at is not None
        who = told.get("Entity") or told["gpu"] + " " + told.get("pid", "")
        if who in seen:
            rounds, seen = rounds + 1, set()
        seen.add(who)
        moment = at if at is not None else rounds * 10**9
        device, place = _place(told, entity)
        for number, (name, cell) in enumerate(told.items()):
            if name not in ("Date", "Time", "gpu", "pid", "type", "command", "Entity"):
                if _is_blank(cell):
                    continue
                unit = units[number] if number < len(units) else ""
                samples.add(name, cell, moment, device, place, _UNITS.get(unit, unit))
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no line of it has a value")
    quality.append((note_zone() if dated else note_no_date()) if timed else note_no_times(1))
    quality += note_bad_lines(bad, "lines of the monitor")
    return Imported(samples.tables("nvidia"), Recording("dmon"), quality)


def _is_blank(cell: str) -> bool:
    """Whether it is one of DCGM's numbers for no number."""
    found = read_number(cell) if len(cell) > 9 else None
    return found is not None and (found[0] >= BLANK or found[0] in BLANKS)


def _place(told: dict[str, str], entity: re.Match[str] | None) -> tuple[int | None, str | None]:
    """Which device a line is of, and what of it."""
    if entity is None:
        pid = told.get("pid", "-")
        text = told["gpu"]
        number = int(text) if text.isdecimal() and len(text) < 5 else None
        return number, f"process {pid}" if pid.isdecimal() else None
    if entity[1] == "GPU":
        return int(entity[2]), None
    return None, f"{entity[1]} {entity[2]}"
