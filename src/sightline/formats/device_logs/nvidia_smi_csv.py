"""`nvidia-smi --query-gpu=… --format=csv`: one line for each GPU, again and again with -l.

The header names each column and, unless nounits was asked for, its unit. A device is told by
index, bus id, UUID or serial, whichever is there. Nothing that was not asked for can be known: not
even the time, where `timestamp` is not among the columns.
"""

from __future__ import annotations

import re
from datetime import datetime
from io import BytesIO

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._lines import Matched, read_utf8, split_lines
from sightline.formats._samples import Samples, count_rounds, note_no_times, note_zone
from sightline.formats._stacks import note_bad_lines
from sightline.formats._text_damage import note_blank_lines
from sightline.formats.device_logs._lost import (
    Lost,
    describe_failure,
    is_failure,
    list_handles_lost,
    report_lost,
)

# Names of --help-query-gpu that no other table begins with.
_FIELD = (
    rb"(?:timestamp|index|name|uuid|gpu_uuid|pci\.bus_id|gpu_bus_id|driver_version|pstate"
    rb"|(?:utilization|memory|power|clocks|temperature|fan|ecc|pcie|clocks_event_reasons"
    rb"|clocks_throttle_reasons|driver_model|vbios_version|compute_cap|enforced)[\w.]*)"
    rb"(?: \[[\w%/]+\])?"
)
IMPORTER = Importer(
    name="nvidia_smi_csv",
    label="nvidia-smi --query-gpu (CSV)",
    strong=(
        rb"\A(?:\xef\xbb\xbf)?" + _FIELD + rb", (?:" + _FIELD + rb", )*"
        rb"(?:utilization|memory|power|clocks|temperature|fan|driver_model)\.",
    ),
    weak=(),
    looks_like="a header such as timestamp, index, utilization.gpu [%], memory.used [MiB]",
    suffixes=(".csv", ".txt", ".log"),
    version=6,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

# nvidia-smi's moments, 2023/03/08 17:25:40.500.
_CLOCK = "{day:text} {hour:int}:{minute:int}:{second:int}.{fraction:word}"
_UNIT = re.compile(r"^(.*?) \[(.*)\]$")
_WHO = ("index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid", "serial")
# What a device is, and not what it does.
_NO_SAMPLES = {
    *_WHO, "timestamp", "name", "gpu_name", "count", "compute_cap", "vbios_version",
    "driver_version", "pci.domain", "pci.bus", "pci.device", "pci.device_id", "pci.sub_device_id",
}  # fmt: skip
_LINE_BYTES = 4096  # of a line before, which says when
_LOST = re.compile(
    rb"(?m)^[^\n]*(?:GPU is lost|GPU requires reset|Unable to determine the device handle"
    rb"|\[Unknown Error\])[^\n]*$"
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that have a value in each column. Raises DamagedError where none has."""
    quality: list[Quality] = []
    data = read_utf8(source, quality)
    quality += note_blank_lines(data.rstrip().decode(errors="replace"))
    first = next((line for line in BytesIO(data) if line.strip()), b"")
    titles = [cell.strip() for cell in first.decode(errors="replace").split(",")]
    if not first:
        raise DamagedError(f"cannot read {source.given}", why="it is empty")
    header = [(found[1], found[2]) if (found := _UNIT.match(c)) else (c, "") for c in titles]
    names = [name for name, _ in header]
    told = {name: f"{n}" for n, name in reversed(list(enumerate(names)))}
    who = next((told[name] for name in _WHO if name in told), None)
    timed = "timestamp" in told
    cells, bad = _split_cells(data, titles, told.get("timestamp"))
    rows = cells.rows
    if not timed:
        rows = rows.filter(cells.text("0") != titles[0])
        device = cells.texts[who].gather(rows.get_column(who)) if who else [None] * rows.height
        rows = rows.with_columns(time_ns=count_rounds(device))
    whole = rows.filter(pl.col("time_ns").is_not_null())
    samples = Samples(always_says=True)
    whole = _number_devices(whole, cells.texts, told, who, samples)
    measured = {f"{n}": one for n, one in enumerate(header) if one[0] not in _NO_SAMPLES}
    samples.add_grid(whole, cells.texts, measured)
    if not samples.has_values() and not samples.names:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    quality.append(note_zone() if timed else note_no_times(1))
    lost = _list_lost(data, names)
    events, notes = report_lost(lost)
    quality += notes
    damaged = bad + rows.height - whole.height - len(lost)
    quality += samples.note_gaps()
    quality += note_bad_lines(max(damaged, 0), "lines of nvidia-smi")
    return Imported(samples.tables("nvidia") | events, Recording("nvidia-smi"), quality)


def _list_lost(data: bytes, names: list[str]) -> list[Lost]:
    """The lines in which nvidia-smi says that a GPU is gone, or answers with an error.

    Each has the time that it says, else that of the line before; 0 where there is none.
    """
    found: list[Lost] = []
    clock = names.index("timestamp") if "timestamp" in names else None
    for line in _LOST.finditer(data):
        text = line[0].decode(errors="replace").strip()
        before = data[max(line.start() - _LINE_BYTES, 0) : line.start()].decode(errors="replace")
        at = next(filter(None, (_read_moment(t, clock) for t in (text, _last_line(before)))), 0)
        if handles := list_handles_lost(text, at):
            found += handles
            continue
        cells = [cell.strip() for cell in text.split(",")]
        known = dict(zip(names, cells, strict=False)) if len(cells) == len(names) else {}
        number = known.get("index", "")
        device = int(number) if number.isdecimal() and len(number) < 5 else None
        place = next((known[name] for name in _WHO[1:] if name in known), None)
        event, words = describe_failure(known) or ("device-lost", text)
        found.append(Lost(at, device, event, words, None if device is not None else place))
    return found


def _last_line(text: str) -> str:
    lines = text.rstrip().splitlines()
    return lines[-1] if lines else ""


def _read_moment(line: str, clock: int | None) -> int:
    """The time that a line says, ns since 1970; 0 where it says none."""
    cells = line.split(",")
    if clock is None or len(cells) <= clock:
        return 0
    try:
        said = datetime.strptime(cells[clock].strip(), "%Y/%m/%d %H:%M:%S.%f")
    except ValueError:
        return 0
    since = said - datetime(1970, 1, 1)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def _split_cells(data: bytes, titles: list[str], clock: str | None) -> tuple[Matched, int]:
    """The cells of all lines that have one for each title, and how many have not.

    Where there is a clock, it is `time_ns` (null where it is damaged) instead of its column.
    """
    places = {f"{n}": _CLOCK if f"{n}" == clock else f"{{{n}:cell}}" for n in range(len(titles))}
    (matched,), others = split_lines(data, ", ".join(places.values()))
    odd = [
        (number, [cell.strip() for cell in line.split(",")]) for number, line in others.iter_rows()
    ]
    odd = [(number, cells) for number, cells in odd if cells[0] != titles[0]]  # a header again
    whole = [(number, *cells) for number, cells in odd if len(cells) == len(titles)]
    schema = {"line": pl.Int64, **dict.fromkeys(places, pl.String)}
    rest = pl.DataFrame(whole, schema=schema, orient="row")
    if clock is None:
        return matched.add(rest), len(odd) - len(whole)
    timed = matched.rows.select(
        pl.exclude("day", "hour", "minute", "second", "fraction"), time_ns=_read_clock(matched)
    )
    texts = {field: texts for field, texts in matched.texts.items() if field in places}
    moment = pl.col(clock).str.to_datetime("%Y/%m/%d %H:%M:%S%.f", time_unit="ns", strict=False)
    rest = rest.with_columns(time_ns=moment.cast(pl.Int64))
    return Matched(timed, texts).add(rest), len(odd) - len(whole)


def _read_clock(matched: Matched) -> pl.Series:
    """Of each line the time in ns since 1970, null where there is none."""
    moment = matched.texts["day"].str.to_datetime("%Y/%m/%d", time_unit="ns", strict=False)
    digits = matched.texts["fraction"].str.extract(r"^(\d{1,9})$")
    fraction = digits.str.pad_end(9, "0").cast(pl.Int64)
    hour, minute, second = pl.col("hour"), pl.col("minute"), pl.col("second")
    seconds = (hour * 60 + minute) * 60 + second
    is_clock = (hour < 24) & (minute < 60) & (second < 60)
    return matched.rows.select(
        pl.when(is_clock).then(
            pl.lit(moment.cast(pl.Int64)).gather("day")
            + seconds * 10**9
            + pl.lit(fraction).gather("fraction")
        )
    ).to_series()


def _number_devices(
    rows: pl.DataFrame,
    texts: dict[str, pl.Series],
    told: dict[str, str],
    who: str | None,
    samples: Samples,
) -> pl.DataFrame:
    """The rows with device_id; what is known of the devices goes to the samples."""
    label = next((told[name] for name in ("name", "gpu_name") if name in told), None)
    asked = {"who": who, "index": told.get("index"), "label": label}
    columns = {key: pl.col(column) for key, column in asked.items() if column}
    devices: dict[int | None, int] = {}
    for codes in rows.select(**columns).unique(maintain_order=True).iter_rows(named=True):
        said = {key: texts[column][codes[key]] for key, column in asked.items() if column}
        number = said.get("index", "")
        own = int(number) if number.isdecimal() and len(number) < 5 else None
        device = samples.number_device(said.get("who", ""), own)
        devices[codes.get("who")] = device
        if said.get("label") and not is_failure(said["label"]):
            samples.names[device] = said["label"]
    if who is None:
        return rows.with_columns(device_id=pl.lit(devices.get(None), pl.Int64))
    return rows.with_columns(
        device_id=pl.col(who).replace_strict(devices, default=None, return_dtype=pl.Int64)
    )
