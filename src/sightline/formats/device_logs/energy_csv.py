"""Energy that others measured: CodeCarbon's emissions.csv, and windows and power logs of Zeus.

CodeCarbon writes a line for each run or task: its end, its length, and energies in kWh. Zeus'
ZeusMonitor writes a line for each window: start in seconds of the monotonic clock, length, and each
GPU's energy in joules (zeus/monitor/energy.py). Its older zeus_monitor writes a line for each
reading of one GPU: time to the nanosecond, and power in milliwatts (zeus_monitor/sample.csv).
"""

from __future__ import annotations

import csv
import re

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_zone, read_number, read_time
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="energy_csv",
    label="CodeCarbon emissions, Zeus windows or power (CSV)",
    strong=(
        rb"\Atimestamp,project_name,run_id,[^\n]*\bemissions\b",
        rb"\ATime,Power\r?\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d",
        rb"\Astart_time,window_name,elapsed_time(?:,(?:gpu\d+|cpu\d*|dram\d*)\w*_energy)+\r?\n",
    ),
    weak=(),
    looks_like="columns of emissions.csv, or start_time,window_name,elapsed_time, or Time,Power",
    suffixes=(".csv",),
    version=4,
    source="https://mlco2.github.io/codecarbon/output.html, https://ml.energy/zeus/measure/",
)

_J_PER_KWH = 3.6e6
_FORMS = ("%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z")
_GPU = re.compile(r"^gpu(\d{1,4})_energy$")
_MOST_S = 2**31


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    samples, bad = Samples(), 0
    ranges: list[tuple[str, int, int]] = []
    try:
        rows = list(csv.DictReader(read_text(source, quality).splitlines()))
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it is not CSV ({error})") from error
    if rows and set(rows[0]) == {"Time", "Power"}:
        return _read_power(source, rows, quality)
    is_zeus = bool(rows) and "window_name" in rows[0]
    for row in rows:
        span = _read_span(row, is_zeus=is_zeus)
        if span is None or None in row or None in row.values():
            bad += 1
            continue
        bad += is_zeus and not all(text.strip() for text in row.values())
        ranges.append((row["window_name" if is_zeus else "project_name"] or "run", *span))
        (_add_window if is_zeus else _add_run)(row, span, samples)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    if not is_zeus:
        quality.append(note_zone())
    quality += samples.note_gaps()
    quality += note_bad_lines(bad, "lines of energies")
    ranges.sort(key=lambda one: (one[1], -one[2]))
    host = pl.DataFrame(ranges, schema=["name", "start_ns", "end_ns"], orient="row").select(
        host_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
        layer=pl.lit("annotation"),
        name="name",
        start_ns="start_ns",
        end_ns="end_ns",
    )
    tables = samples.tables("nvidia" if is_zeus else None) | {"host_ops": host}
    return Imported(tables, Recording("zeus" if is_zeus else "codecarbon"), quality)


def _read_power(source: Source, rows: list[dict[str, str]], quality: list[Quality]) -> Imported:
    """The import of a log of zeus_monitor. Raises DamagedError where it has no complete line."""
    samples, bad = Samples(), 0
    for row in rows:
        at = _read_moment(row["Time"] or "")
        power = read_number(row["Power"] or "")
        if at is None or power is None or None in row:
            bad += 1
        else:
            samples.add("power", power[0] / 1000, at, 0, unit="W")
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    notes = [note_zone(), *note_bad_lines(bad, "readings of power")]
    return Imported(samples.tables("nvidia"), Recording("zeus"), [*quality, *notes])


def _read_moment(text: str) -> int | None:
    """ns of a time that has them; strptime knows microseconds only."""
    whole, _, part = text.partition(".")
    second = read_time(whole, "%Y-%m-%d %H:%M:%S")
    if second is None or not part.isdecimal() or len(part) > 9:
        return None
    return second + int(part.ljust(9, "0"))


def _read_span(row: dict[str, str], *, is_zeus: bool) -> tuple[int, int] | None:
    """Start and end, ns."""
    try:
        length = float(row["elapsed_time" if is_zeus else "duration"])
        if not 0 <= length < _MOST_S:
            return None
        if is_zeus:
            start = float(row["start_time"])
            if not 0 <= start < _MOST_S:
                return None
            return round(start * 1e9), round((start + length) * 1e9)
        end = read_time(row["timestamp"], *_FORMS)
        return None if end is None else (end - round(length * 1e9), end)
    except (KeyError, TypeError, ValueError):
        return None


def _add_window(row: dict[str, str], span: tuple[int, int], samples: Samples) -> None:
    for key, text in row.items():
        gpu = _GPU.match(key or "")
        if gpu:
            device = int(gpu[1])
            samples.add("energy", text, span[1], device, unit="J", from_ns=span[0])
        elif key and key.endswith("_energy"):
            samples.add("energy", text, span[1], None, key[:-7], "J", span[0])


def _add_run(row: dict[str, str], span: tuple[int, int], samples: Samples) -> None:
    for part in ("cpu", "gpu", "ram"):
        samples.add("power", row.get(f"{part}_power") or "", span[1], None, part, "W", span[0])
        _add_kwh(row.get(f"{part}_energy"), span, part, samples)
    _add_kwh(row.get("energy_consumed"), span, "all", samples)
    emissions = row.get("emissions") or ""
    samples.add("emissions", emissions, span[1], None, None, "kg CO2e", span[0])


def _add_kwh(text: str | None, span: tuple[int, int], part: str, samples: Samples) -> None:
    try:
        value = float(text or "") * _J_PER_KWH
    except ValueError:
        samples.count_odd("energy", text)
        return
    samples.add("energy", value, span[1], None, part, "J", span[0])
