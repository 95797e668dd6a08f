"""`nvidia-smi --query-gpu=… --format=csv`: one line for each GPU, again and again with -l.

The header names each column and, unless nounits was asked for, its unit. A device is told by
index, bus id, UUID or serial, whichever is there. Nothing that was not asked for can be known: not
even the time, where `timestamp` is not among the columns.
"""

from __future__ import annotations

import csv
import re

from sightline.errors import DamagedError
from sightline.importers._samples import Samples, note_no_times, note_zone, read_time
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
    version=1,
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
    lines = csv.reader(read_text(source, quality).splitlines(), skipinitialspace=True)
    try:
        rows = [[cell.strip() for cell in row] for row in lines if row]
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it is no CSV ({error})") from error
    header = [(found[1], found[2]) if (found := _UNIT.match(c)) else (c, "") for c in rows[0]]
    names = [name for name, _ in header]
    samples, bad, rounds, seen = Samples(), 0, 0, set[str]()
    timed = "timestamp" in names
    for row in rows[1:]:
        if row == rows[0]:
            continue  # two logs, one after the other
        told = dict(zip(names, row, strict=False))
        who = next((told[name] for name in _WHO if name in told), "")
        if who in seen or not who:
            rounds, seen = rounds + bool(seen), set()
        seen.add(who)
        at = read_time(told.get("timestamp", ""), "%Y/%m/%d %H:%M:%S.%f") if timed else None
        if len(row) != len(header) or (timed and at is None):
            bad += 1
            continue
        index = told.get("index", "")
        number = int(index) if index.isdecimal() and len(index) < 5 else None
        device = samples.number_device(who, number)
        if name := told.get("name") or told.get("gpu_name"):
            samples.names[device] = name
        moment = at if at is not None else rounds * 10**9
        for (name, unit), cell in zip(header, row, strict=True):
            if name not in _NO_SAMPLES:
                samples.add(name, cell, moment, device, unit=unit)
    if not samples.rows and not samples.names:
        raise DamagedError(f"cannot read {source.given}", why="no line of it is whole")
    quality.append(note_zone() if timed else note_no_times(1))
    quality += note_bad_lines(bad, "lines of nvidia-smi")
    return Imported(samples.tables("nvidia"), Recording("nvidia-smi"), quality)
