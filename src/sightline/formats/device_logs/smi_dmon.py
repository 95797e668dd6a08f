"""What `nvidia-smi dmon`, `nvidia-smi pmon` and `dcgmi dmon` print: a line for each GPU, and again.

Lines that begin with # name the columns, and below them their units; nvidia-smi's -o adds date and
time. A dash and N/A are not values. dcgmi prints entities (GPU 0, GPU-I 3, CPU 0), and no time.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._lines import Matched, read_utf8, split_lines
from sightline.formats._samples import (
    BLANK,
    BLANKS,
    Samples,
    TimesOfDay,
    count_rounds,
    note_no_date,
    note_no_times,
    note_zone,
    read_number,
    read_time,
)
from sightline.formats._stacks import note_bad_lines
from sightline.formats._text_damage import note_lines_of_blanks

IMPORTER = Importer(
    name="smi_dmon",
    label="nvidia-smi dmon, pmon and dcgmi dmon",
    strong=(
        rb"(?:\A|\n)#[ ]?(?:(?:Date +)?Time +)?gpu +"
        rb"(?:pwr|gtemp|sm|pid|fb|pclk|mclk|rxpci|pviol)\b",
        rb"(?:\A|\n)# {0,2}Entity +[A-Z0-9#]{3,6}[^\n]*\n {0,12}I[dD]\b",
    ),
    weak=(),
    looks_like="a header such as # gpu pwr gtemp, or #Entity SMACT",
    suffixes=(".txt", ".log", ".out"),
    version=7,
    source="https://docs.nvidia.com/deploy/nvidia-smi/ and DCGM's dcgmi dmon",
)

_ENTITY = re.compile(r"^(GPU-CI|GPU-I|GPU|CPU|Switch|Link|Core) (\d{1,4})\s")
# A line of a process within the command of another: two lines in one.
_PROCESS = re.compile(r"(?:^|\s)\d{1,3} (?:\d{1,10}|-) (?:[CGM](?:\+[CGM])*|-) (?:\d{1,3}|-) ")
_FORM = "%Y%m%d %H:%M:%S"
_NO_SAMPLES = ("Date", "Time", "gpu", "pid", "type", "command", "Entity")
_SHORT = 9  # digits: the least of the numbers for no number has ten
_UNITS = {"MB/s": "", "MB": "MiB", "bool": ""}  # others are called as here


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines under a header. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    data = _align_heads(read_utf8(source, quality))
    samples = Samples()
    timed, dated, bad = _add_table(data, samples), True, 0
    if timed is None:
        timed, dated, bad = _add_lines(data.decode(errors="replace"), samples)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no line of it has a value")
    quality.append((note_zone() if dated else note_no_date()) if timed else note_no_times(1))
    quality += [*samples.note_gaps(), *note_lines_of_blanks(data.decode(errors="replace"))]
    quality += note_bad_lines(bad, "lines of the monitor")
    return Imported(samples.tables("nvidia"), Recording("dmon"), quality)


def _align_heads(data: bytes) -> bytes:
    """The log with heads of entities as DCGM writes them since its version 3."""
    return re.sub(rb"(?m)^# {0,2}Entity( [^\n]*)\n {0,12}(I[dD])\b", rb"#Entity\1\n\2", data)


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
    if "Time" in names and "Date" not in names:
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
    if len(column) < len(names) or any(map(_is_blank, _list_long_texts(cells))):
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
    if len(clock) < 2:  # most have no time
        return pl.Series([None] * rows.height, dtype=pl.Int64)
    different = rows.select(clock).unique()
    date, time = (cells.texts[field].gather(different.get_column(field)) for field in clock)
    moment = (date + " " + time).str.to_datetime(_FORM, time_unit="ns", strict=False)
    known = different.with_columns(at=moment.cast(pl.Int64))
    return rows.join(known, on=clock, maintain_order="left").get_column("at")


def _list_long_texts(cells: Matched) -> list[str]:
    """The different cells that are long enough to be one of DCGM's numbers for no number."""
    texts = pl.concat(cells.texts.values()) if cells.texts else pl.Series(dtype=pl.String)
    return texts.filter(texts.str.len_bytes() > _SHORT).unique().to_list()


def _is_blank(cell: str) -> bool:
    """Whether it is one of DCGM's numbers for no number."""
    found = read_number(cell) if len(cell) > _SHORT else None
    return found is not None and (found[0] >= BLANK or found[0] in BLANKS)


def _add_lines(text: str, samples: Samples) -> tuple[bool, bool, int]:
    """Add what any log says, line by line: whether it has times, dates, how many are damaged."""
    bad, rounds = 0, 0
    names: list[str] = []
    units: list[str] = []
    seen: set[str] = set()
    timed, dated, days = False, False, TimesOfDay()
    processes: dict[tuple[int, int], int] = {}  # by moment and device; a GPU without any has a line
    for line in text.splitlines():
        words = line.lstrip("#").split()
        if not words or words[0] in ("ID", "Id"):
            continue
        if line.startswith("#"):
            if "gpu" in words[:3] or words[0] == "Entity":
                names, units = words, []
            elif not units:
                units = words
                bad += len(units) != len(names)  # a column's name is missing, or its unit
            continue
        entity = _ENTITY.match(line)
        cells = [entity[0].strip(), *line[entity.end() :].split()] if entity else words
        # The command of a process is left empty where there is none.
        has_command = names[-1:] == ["command"]
        needed = len(names) - has_command
        if not names or len(cells) < needed or bool(entity) != (names[0] == "Entity"):
            bad += bool(names)
            continue
        # What stands behind the last column is another line's.
        rest = " ".join(cells[needed:])
        bad += bool(_PROCESS.search(rest) if has_command else rest)
        told = dict(zip(names, cells, strict=False))
        clock = told.get("Time", "")
        if "Date" in told:
            at, dated = read_time(f"{told['Date']} {clock}", _FORM), True
        else:
            at = days.read(clock)
        timed = timed or at is not None
        who = told.get("Entity") or told["gpu"] + " " + told.get("pid", "")
        # A GPU has a line for each of its processes, or one that says that it has none.
        gpu, is_idle = told.get("gpu", ""), told.get("pid") == "-"
        if who in seen or f"{gpu} -" in seen or (is_idle and gpu in seen):
            rounds, seen = rounds + 1, set()
        seen |= {who, gpu}
        moment = at if at is not None else rounds * 10**9
        device, place = _place(told, entity)
        bad += entity is None and device is None and told["gpu"] != "-"
        if "pid" in told and device is not None:
            here = (moment, device)
            processes[here] = processes.get(here, 0) + told["pid"].isdecimal()
        for number, (name, cell) in enumerate(told.items()):
            if name not in _NO_SAMPLES and not _is_blank(cell):
                unit = units[number] if number < len(units) else ""
                samples.add(name, cell, moment, device, place, _UNITS.get(unit, unit))
    for (moment, device), count in processes.items():
        samples.add("processes", count, moment, device)
    return timed, dated, bad


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
