"""`amd-smi metric` and `amd-smi monitor` as CSV or JSON: a line or object for each GPU, and again.

JSON has groups of values (usage, power, clock …), each {"value": …, "unit": …}; CSV has the names
within the groups as columns, joined by _, and no units: MHz, W, C, percent, and MB that are MiB
(amdsmi_commands.py divides by 1024 twice). -w adds a timestamp, in seconds since 1970.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._samples import Cell, Samples, count_rounds, note_no_times, read_csv_texts
from sightline.formats._stacks import note_bad_lines, read_text

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
        rb'\A(?:WARNING[^\n]*\n)*\s*(?:\{\s*"gpu_data"\s*:\s*)?(?:\[\s*)?\{\s*'
        rb'(?:"timestamp"\s*:\s*[\d.]+\s*,\s*)?"gpu"\s*:\s*\d+\s*,\s*"' + _FIRST + rb'"\s*:',
    ),
    weak=(),
    looks_like="a header such as timestamp,gpu,gfx_activity, or objects with gpu, usage, power",
    suffixes=(".csv", ".json", ".txt", ".log"),
    version=5,
    source="https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html",
)

_DEPTH = 16
_CLOCK_OF_PART = re.compile(r"^(gfx|mem)_(\d{1,2})_clk$")
_DOCUMENT = re.compile(r"[^\s,]")
_TIME = r"^(\d{1,10})(?:\.(\d{1,9}))?$"
_NO_SAMPLES = ("timestamp", "gpu", "xcp")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all values with a number. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    while text.startswith("WARNING"):
        text = text.partition("\n")[2]
    samples = Samples(always_says=True)
    try:
        if text.lstrip()[:1] in ("[", "{"):
            rows, columns = _read_objects(text, quality)
        else:
            rows, columns = _read_lines(text, quality)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it breaks off: {error}") from error
    known = rows.filter(pl.col("gpu").str.contains(r"^\d{1,4}$"))
    timed, known = _place_rows(known, samples)
    samples.add_table(known, columns)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no GPU in it has a reading")
    if not timed:
        last = known.get_column("time_ns").max()
        quality.append(note_no_times(1 if last else 0))
    quality += samples.note_gaps()
    quality += note_bad_lines(rows.height - known.height, "readings of amd-smi")
    return Imported(samples.tables("amd"), Recording("amd-smi"), quality)


def _place_rows(rows: pl.DataFrame, samples: Samples) -> tuple[bool, pl.DataFrame]:
    """Whether they have times; the rows with time_ns, device_id and source."""
    devices = {
        gpu: samples.number_device(gpu, int(gpu))
        for gpu in rows.get_column("gpu").unique(maintain_order=True).to_list()
    }
    part = pl.col("xcp").fill_null("") if "xcp" in rows.columns else pl.lit("")
    stamp = pl.col("timestamp") if "timestamp" in rows.columns else pl.lit(None, pl.String)
    whole = stamp.str.extract(_TIME, 1).cast(pl.Int64)
    rest = stamp.str.extract(_TIME, 2).fill_null("").str.pad_end(9, "0").cast(pl.Int64)
    placed = rows.with_columns(
        time_ns=pl.when(whole <= INT64_MAX // 10**9 - 1).then(whole * 10**9 + rest),
        device_id=pl.col("gpu").replace_strict(devices, default=None, return_dtype=pl.Int64),
        source=pl.when(part.str.contains(r"^[1-9]\d{0,3}$")).then(pl.lit("XCP ") + part),
        who=pl.col("gpu") + " " + part,
    )
    timed = placed.get_column("time_ns").null_count() < placed.height
    rounds = count_rounds(placed.get_column("who"))
    return timed, placed.with_columns(time_ns=pl.col("time_ns").fill_null(rounds))


def _read_lines(text: str, quality: list[Quality]) -> tuple[pl.DataFrame, dict[str, Cell]]:
    """The lines, and what their columns are; a header may come again."""
    rows = read_csv_texts(text, quality)
    if "gpu" not in rows.columns:
        raise ValueError("its header has no gpu")
    # `mem` is a temperature beside those of `metric`, and a utilization in `monitor`.
    is_metric = bool({"edge", "hotspot"} & set(rows.columns))
    columns = {
        name: _describe("memory_temperature" if name == "mem" and is_metric else name)
        for name in rows.columns
        if name not in _NO_SAMPLES
    }
    return rows.filter(pl.col("gpu").fill_null("") != "gpu"), columns


def _read_objects(text: str, quality: list[Quality]) -> tuple[pl.DataFrame, dict[str, Cell]]:
    """The objects of all documents in the text as rows, and what their columns are."""
    decoder, at = json.JSONDecoder(), 0
    rows: list[dict[str, str]] = []
    while found := _DOCUMENT.search(text, at):
        at = found.start()
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError:
            document, at = parse_json(text[at:], quality), len(text)
        listed = document.get("gpu_data", document) if isinstance(document, dict) else document
        for one in listed if isinstance(listed, list) else [listed]:
            rows.append(dict(_flatten(one)) if isinstance(one, dict) else {})
    names = {"gpu": None, **{name: None for row in rows for name in row}}
    table = pl.DataFrame(
        {name: pl.Series([row.get(name) for row in rows], dtype=pl.String) for name in names}
    )
    return table, {name: _describe(name) for name in names if name not in _NO_SAMPLES}


def _flatten(group: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Names as CSV has them, without the outermost group, and values as texts with their units."""
    for key, value in group.items():
        here = (*path, key)
        if here == ("temperature", "mem"):
            here = ("temperature", "memory_temperature")
        name = replace_surrogates("_".join(here[1:] or here))
        if isinstance(value, dict) and "value" in value:
            text = f"{value['value']} {value.get('unit') or ''}"
            yield name, replace_surrogates(text.strip())
        elif isinstance(value, dict) and len(here) < _DEPTH:
            yield from _flatten(value, here)
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            yield name, replace_surrogates(str(value))


def _describe(name: str) -> Cell:
    clock = _CLOCK_OF_PART.match(name)
    if clock:
        return Cell(f"{clock[1]}_clk", "", None if clock[2] == "0" else f"{clock[1]} {clock[2]}")
    if name in ("hotspot", "hotspot_temperature"):
        return Cell("temperature", "C", "junction")
    return Cell("temperature", "C") if name == "edge" else Cell(name)
