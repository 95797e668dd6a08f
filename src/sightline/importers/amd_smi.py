"""`amd-smi metric` and `amd-smi monitor` as CSV or JSON: a line or object for each GPU, and again.

JSON has groups of values (usage, power, clock …), each {"value": …, "unit": …}; CSV has the names
within the groups as columns, joined by _, and no units: MHz, W, C, percent, and MB that are MiB
(amdsmi_commands.py divides by 1024 twice). -w adds a timestamp, in seconds since 1970.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from typing import Any

from sightline.errors import DamagedError
from sightline.importers._json import parse_json
from sightline.importers._samples import Samples, note_no_times, read_number
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source
from sightline.units import INT64_MAX

# What `metric` and `monitor` begin with, whichever of their options were given.
_FIRST = (
    rb"(?:usage|power|clock|temperature|mem_usage|pcie|ecc|energy|fan|voltage|xcp"
    rb"|power_usage|socket_power|hotspot(?:_temperature)?|edge|gfx\w*|mem\w*|umc_activity"
    rb"|encoder|decoder|vram_used|total_vram|total_correctable_count|total_energy_consumption)"
)
IMPORTER = Importer(
    name="amd_smi",
    label="amd-smi metric and monitor (CSV, JSON)",
    strong=(
        rb"\A(?:\xef\xbb\xbf)?(?:WARNING[^\n]*\n)*(?:timestamp,)?gpu,(?:xcp,)?"
        + _FIRST
        + rb"[,\r\n]",
        rb'\A(?:WARNING[^\n]*\n)*\s*(?:\{\s*"gpu_data"\s*:\s*)?\[?\s*\{\s*'
        rb'(?:"timestamp"\s*:\s*[\d.]+\s*,\s*)?"gpu"\s*:\s*\d+\s*,\s*"' + _FIRST + rb'"\s*:',
    ),
    weak=(),
    looks_like="a header such as timestamp,gpu,gfx_activity, or objects with gpu, usage, power",
    suffixes=(".csv", ".json", ".txt", ".log"),
    version=1,
    source="https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html",
)

_DEPTH = 16
_CLOCK_OF_PART = re.compile(r"^(gfx|mem)_(\d{1,2})_clk$")
_DOCUMENT = re.compile(r"[^\s,]")
_TIME = re.compile(r"^\d{1,10}(?:\.\d{1,9})?$")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all values with a number. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    while text.startswith("WARNING"):
        text = text.partition("\n")[2]
    is_json = text.lstrip()[:1] in ("[", "{")
    try:
        readings = list(_read_objects(text, quality) if is_json else _read_lines(text))
    except (ValueError, csv.Error, RecursionError) as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it breaks off: {error}") from error
    samples, bad, timed = Samples(), 0, False
    rounds, seen = 0, set[str]()
    for told in readings:
        gpu = str(told.get("gpu", ""))
        if not gpu.isdecimal() or len(gpu) > 4:
            bad += 1
            continue
        part = str(told.get("xcp", ""))
        place = f"XCP {part}" if part.isdecimal() and part != "0" else None
        rounds, seen = (rounds + 1, set()) if f"{gpu} {part}" in seen else (rounds, seen)
        seen.add(f"{gpu} {part}")
        at = _read_moment(told.get("timestamp"))
        timed = timed or at is not None
        device = samples.number_device(gpu, int(gpu))
        for name, value in told.items():
            if name not in ("timestamp", "gpu", "xcp"):
                _add(samples, name, value, rounds * 10**9 if at is None else at, device, place)
    if not samples.rows:
        raise DamagedError(f"cannot read {source.given}", why="no GPU in it has a number")
    if not timed:
        quality.append(note_no_times(1 if rounds else 0))
    quality += note_bad_lines(bad, "readings of amd-smi")
    return Imported(samples.tables("amd"), Recording("amd-smi"), quality)


def _read_lines(text: str) -> Iterator[dict[str, str]]:
    """The lines as columns to cells; a header may come again."""
    rows = csv.reader(text.splitlines())
    header = next(rows, [])
    # `mem` is a temperature beside those of `metric`, and a utilization in `monitor`.
    if {"edge", "hotspot"} & set(header):
        header = ["memory_temperature" if name == "mem" else name for name in header]
    for cells in rows:
        if cells and cells != header and "gpu" not in cells:
            yield dict(zip(header, cells, strict=False)) if len(cells) == len(header) else {}


def _read_objects(text: str, quality: list[Quality]) -> Iterator[dict[str, Any]]:
    """The objects of all documents in the text, each as names to values."""
    decoder, at = json.JSONDecoder(), 0
    while found := _DOCUMENT.search(text, at):
        at = found.start()
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError:
            document, at = parse_json(text[at:], quality), len(text)
        listed = document.get("gpu_data", document) if isinstance(document, dict) else document
        for one in listed if isinstance(listed, list) else [listed]:
            if isinstance(one, dict):
                yield dict(_flatten(one))
            else:
                yield {}


def _flatten(group: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Names as CSV has them: without the outermost group."""
    for key, value in group.items():
        here = (*path, key)
        if here == ("temperature", "mem"):
            here = ("temperature", "memory_temperature")
        if isinstance(value, dict) and "value" in value:
            text = f"{value['value']} {value.get('unit') or ''}"
            yield "_".join(here[1:] or here), text.strip()
        elif isinstance(value, dict) and len(here) < _DEPTH:
            yield from _flatten(value, here)
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            name = "_".join(here[1:] or here)
            yield name, value


def _read_moment(value: object) -> int | None:
    if value is None or not _TIME.match(str(value)):
        return None
    whole, _, part = str(value).partition(".")
    ns = int(whole) * 10**9 + int(part.ljust(9, "0") or 0)
    return ns if ns <= INT64_MAX else None


def _add(
    samples: Samples, name: str, value: object, at: int, device: int, place: str | None
) -> None:
    found = read_number(str(value))
    if found is None:
        return
    number, unit = found
    clock = _CLOCK_OF_PART.match(name)
    if clock:
        name = f"{clock[1]}_clk"
        place = place or (f"{clock[1]} {clock[2]}" if clock[2] != "0" else None)
    elif name in ("hotspot", "hotspot_temperature"):
        name, unit, place = "temperature", "C", place or "junction"
    elif name == "edge":
        name, unit = "temperature", "C"
    samples.add(name, number, at, device, place, unit)
