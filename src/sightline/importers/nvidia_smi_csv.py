"""`nvidia-smi --query-gpu=… --format=csv`: one line for each GPU, again and again with -l.

The header names each column and, unless nounits was asked for, its unit. A device is told by
index, bus id, UUID or serial, whichever is there. Nothing that was not asked for can be known: not
even the time, where `timestamp` is not among the columns.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.errors import DamagedError
from sightline.importers._samples import Cell, Samples, count_rounds, note_no_times, note_zone
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

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
    version=2,
    source="https://docs.nvidia.com/deploy/nvidia-smi/",
)

_UNIT = re.compile(r"^(.*?) \[(.*)\]$")
_WHO = ("index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid", "serial")
# What a device is, and not what it does.
_NO_SAMPLES = {
    *_WHO, "timestamp", "name", "gpu_name", "count", "compute_cap", "vbios_version",
    "driver_version", "pci.domain", "pci.bus", "pci.device", "pci.device_id", "pci.sub_device_id",
}  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that have a value in each column. Raises DamagedError where none has."""
    quality: list[Quality] = []
    lines = pl.Series(read_text(source, quality).splitlines(), dtype=pl.String)
    rows = lines.filter(lines.str.strip_chars() != "").str.split(",")
    if rows.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="it is empty")
    titles = [cell.strip() for cell in rows[0]]
    header = [(found[1], found[2]) if (found := _UNIT.match(c)) else (c, "") for c in titles]
    names = [name for name, _ in header]
    timed = "timestamp" in names
    cells = _split_cells(rows, len(titles)).filter(pl.col("0") != titles[0])
    told = {name: f"{n}" for n, name in reversed(list(enumerate(names)))}
    who = next((told[name] for name in _WHO if name in told), None)
    cells = cells.with_columns(
        time_ns=_read_times(told["timestamp"])
        if timed
        else count_rounds(
            cells.get_column(who) if who else pl.repeat(None, cells.height, eager=True)
        ),
        who=pl.col(who) if who else pl.lit(""),
    )
    whole = cells.filter(pl.col("is_whole") & pl.col("time_ns").is_not_null())
    samples = Samples()
    whole = _number_devices(whole, told, samples)
    measured = {f"{n}": Cell(*one) for n, one in enumerate(header) if one[0] not in _NO_SAMPLES}
    samples.add_table(whole.with_columns(source=pl.lit(None, pl.String)), measured)
    if not samples.has_values() and not samples.names:
        raise DamagedError(f"cannot read {source.given}", why="no line of it is whole")
    quality.append(note_zone() if timed else note_no_times(1))
    quality += note_bad_lines(cells.height - whole.height, "lines of nvidia-smi")
    return Imported(samples.tables("nvidia"), Recording("nvidia-smi"), quality)


def _split_cells(rows: pl.Series, count: int) -> pl.DataFrame:
    """The lines' cells, each column named by its number; is_whole where none is missing."""
    listed = pl.DataFrame({"cells": rows})
    return listed.select(
        *(
            pl.col("cells").list.get(n, null_on_oob=True).str.strip_chars().alias(f"{n}")
            for n in range(count)
        ),
        is_whole=pl.col("cells").list.len() == count,
    )


def _read_times(column: str) -> pl.Expr:
    moment = pl.col(column).str.to_datetime("%Y/%m/%d %H:%M:%S%.f", time_unit="ns", strict=False)
    return moment.cast(pl.Int64)


def _number_devices(rows: pl.DataFrame, told: dict[str, str], samples: Samples) -> pl.DataFrame:
    """The rows with device_id; what is known of the devices goes to the samples."""
    index = pl.col(told["index"]) if "index" in told else pl.lit("")
    label = next((told[name] for name in ("name", "gpu_name") if name in told), None)
    known = rows.select("who", index=index, label=pl.col(label) if label else pl.lit("")).unique(
        maintain_order=True
    )
    devices: dict[str, int] = {}
    for who, number, name in known.iter_rows():
        own = int(number) if number.isdecimal() and len(number) < 5 else None
        devices[who] = samples.number_device(who, own)
        if name:
            samples.names[devices[who]] = name
    return rows.with_columns(
        device_id=pl.col("who").replace_strict(devices, default=None, return_dtype=pl.Int64)
    )
