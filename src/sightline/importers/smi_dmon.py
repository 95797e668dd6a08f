"""What `nvidia-smi dmon`, `nvidia-smi pmon` and `dcgmi dmon` print: a line for each GPU, and again.

Lines that begin with # name the columns, and below them their units; nvidia-smi's -o adds date and
time. A dash and N/A are no value. dcgmi prints entities (GPU 0, GPU-I 3, CPU 0), and no time.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.errors import DamagedError
from sightline.importers._lines import Matched, read_utf8, split_lines
from sightline.importers._samples import (
    Samples,
    count_rounds,
    note_no_times,
    note_zone,
    read_time,
)
from sightline.importers._stacks import note_bad_lines
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

IMPORTER = Importer(
    name="smi_dmon",
    label="nvidia-smi dmon, pmon and dcgmi dmon",
    strong=(
        rb"(?:\A|\n)#[ ]?(?:Date +Time +)?gpu +(?:pwr|gtemp|sm|pid|fb|pclk|mclk|rxpci|pviol)\b",
        rb"(?:\A|\n)#Entity +[A-Z0-9#]{3,6}[^\n]*\nI[dD]\b",
    ),
    weak=(),
    looks_like="a header such as # gpu pwr gtemp, or #Entity SMACT",
    suffixes=(".txt", ".log", ".out"),
    version=1,
    source="https://docs.nvidia.com/deploy/nvidia-smi/ and DCGM's dcgmi dmon",
)

_ENTITY = re.compile(r"^(GPU-CI|GPU-I|GPU|CPU|Switch|Link|Core) (\d{1,4})\s")
_FORMS = ("%Y%m%d %H:%M:%S", " %H:%M:%S")
_NO_SAMPLES = ("Date", "Time", "gpu", "pid", "type", "command", "Entity")
_UNITS = {"MB/s": "", "MB": "MiB", "bool": ""}  # others are called as here


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines under a header. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    data = read_utf8(source, quality)
    samples = Samples()
    timed = _add_table(data, samples)
    bad = 0
    if timed is None:
        timed, bad = _add_lines(data.decode(errors="replace"), samples)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no line of it has a value")
    quality.append(note_zone() if timed else note_no_times(1))
    quality += note_bad_lines(bad, "lines of the monitor")
    return Imported(samples.tables("nvidia"), Recording("dmon"), quality)


def _add_table(data: bytes, samples: Samples) -> bool | None:
    """Add what a log says whose lines are all alike and of whole GPUs, as of most.

    Whether it has times; None where any line is otherwise, with nothing added.
    """
    for blanks in (b"\t", b" " * 8, b" " * 4, b"  ", b"  "):
        data = data.replace(blanks, b" ")
    data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").replace(b"# ", b"#").strip()
    heads = [line.decode(errors="replace") for line in data[:4096].splitlines()[:2]]
    names, units = ([*(line.lstrip("#").split() for line in heads), [], []])[:2]
    fields = " ".join(f"{{{n}:text}}" for n in range(len(names)))
    is_entity = names[:1] == ["Entity"]
    if data[:1] != b"#" or not (is_entity or "gpu" in names[:3]) or "pid" in names:
        return None
    (cells,), others = split_lines(data, f"GPU {fields}" if is_entity else fields)
    is_head = cells.text("0").str.starts_with("#")
    rows = cells.rows.filter(~is_head)
    again = cells.rows.filter(is_head).unique(pl.exclude("line"))
    texts = [cells.texts[field].gather(again.get_column(field)) for field in cells.texts]
    heads_again = {" ".join(words) for words in zip(*texts, strict=True)}
    last = cells.texts[f"{len(names) - 1}"]
    if not {*others.get_column("text"), *heads_again} <= set(heads) or last.str.contains(" ").any():
        return None
    column = {name: f"{n}" for n, name in enumerate(names)}
    if len(column) < len(names):
        return None
    who = column["Entity" if is_entity else "gpu"]
    gpus = cells.texts[who]
    own = gpus.str.extract(r"^(\d{1,4})$").cast(pl.Int64)
    if is_entity and own.null_count():
        return None
    moments = _read_moments(cells, rows, column)
    if moments.null_count() not in (0, rows.height):
        return None
    timed = rows.height > 0 and not moments.null_count()
    placed = rows.with_columns(
        time_ns=moments if timed else count_rounds(gpus.gather(rows.get_column(who))),
        device_id=own.gather(rows.get_column(who)),
    )
    plain = [_UNITS.get(unit, unit) for unit in ([] if is_entity else units)]
    plain += [""] * (len(names) - len(plain))
    measured = {
        column[name]: (name, unit)
        for name, unit in zip(names, plain, strict=False)
        if name not in _NO_SAMPLES
    }
    samples.add_grid(placed, cells.texts, measured)
    return timed


def _read_moments(cells: Matched, rows: pl.DataFrame, column: dict[str, str]) -> pl.Series:
    """When each line was written, in ns; null where it does not say so."""
    clock = [column[name] for name in ("Date", "Time") if name in column]
    if len(clock) < 2:  # older ones log no date, and most no time
        texts = [cells.texts[field].gather(rows.get_column(field)) for field in clock]
        read = [read_time(f" {time}", *_FORMS) for (time,) in zip(*texts, strict=True)]
        return pl.Series(read or [None] * rows.height, dtype=pl.Int64)
    different = rows.select(clock).unique()
    date, time = (cells.texts[field].gather(different.get_column(field)) for field in clock)
    moment = (date + " " + time).str.to_datetime(_FORMS[0], time_unit="ns", strict=False)
    known = different.with_columns(at=moment.cast(pl.Int64))
    return rows.join(known, on=clock, maintain_order="left").get_column("at")


def _add_lines(text: str, samples: Samples) -> tuple[bool, int]:
    """Add what any log says, line by line: whether it has times, how many lines are damaged."""
    bad, rounds = 0, 0
    names: list[str] = []
    units: list[str] = []
    seen: set[str] = set()
    timed = False
    for line in text.splitlines():
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
        if not names or len(cells) < len(names) or bool(entity) != (names[0] == "Entity"):
            bad += bool(names)
            continue
        told = dict(zip(names, cells, strict=False))
        at = read_time(f"{told.get('Date', '')} {told.get('Time', '')}", *_FORMS)
        timed = timed or at is not None
        who = told.get("Entity") or told["gpu"] + " " + told.get("pid", "")
        if who in seen:
            rounds, seen = rounds + 1, set()
        seen.add(who)
        moment = at if at is not None else rounds * 10**9
        device, place = _place(told, entity)
        for number, (name, cell) in enumerate(told.items()):
            if name not in _NO_SAMPLES:
                unit = units[number] if number < len(units) else ""
                samples.add(name, cell, moment, device, place, _UNITS.get(unit, unit))
    return timed, bad


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
