"""Tables of nsys' summaries, as CSV or printed: rows of `call_sums` by what their columns say.

Format: the report scripts of Nsight Systems (User Guide, "Report Scripts"); of 2019 to 2021 with
"Average", "Minimum", "Operations" for "Avg", "Min", "Count", and no units in the headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.formats._summaries import COPY, FAULTS, FILL, KERNEL

NS = {"ns": 1, "nsec": 1, "nanoseconds": 1, "us": 10**3, "usec": 10**3, "µs": 10**3, "ms": 10**6,
      "msec": 10**6, "s": 10**9, "sec": 10**9, "seconds": 10**9}  # fmt: skip
# nsys: "Total (MB)" since 2021 is decimal, "by size in KiB" before is not.
SIZES = {"b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20,
         "gib": 1 << 30}  # fmt: skip
_UNIT = re.compile(r"^(.*?)\s*\((\w{1,11})\)$")
_NUMBER = re.compile(r"^[\d,]{1,40}(?:\.\d{1,12})?$")
_COUNTS = ("Num Calls", "Instances", "Count", "Operations", "Calls")
_NAMES = ("Name", "Operation", "Range")
_CUDA = re.compile(r"^cuda[A-Z]")
_DRIVER = re.compile(r"^cu[A-Z]")
_DEVICE = frozenset(("Instances", "Operation", "Operations"))
_MPI = re.compile(r"\bmpi", re.I)
_TITLES = (
    ("openmp", re.compile(r"openmp", re.I)),
    ("openacc", re.compile(r"openacc", re.I)),
    ("os", re.compile(r"osrt|operating system|os runtime", re.I)),
    ("mpi", _MPI),
)


class Header(NamedTuple):
    """A table's columns by name, each with its place and its unit (None: it has none)."""

    places: dict[str, tuple[int, str | None]]

    def find(self, *names: str) -> int | None:
        """The place of the first of these columns that there is."""
        return next((self.places[name][0] for name in names if name in self.places), None)


def read_header(cells: Sequence[str]) -> Header:
    """The columns of a header's cells."""
    places: dict[str, tuple[int, str | None]] = {}
    for place, title in enumerate(cells):
        found = _UNIT.match(title.strip('\ufeff" '))
        name, unit = (found[1], found[2].lower()) if found else (title.strip('\ufeff" '), None)
        places.setdefault(name, (place, unit))
    return Header(places)


def scale_number(text: str, factor: int) -> int | None:
    """A printed number times its unit, rounded half to even; None for what is none."""
    if not _NUMBER.match(text):
        return None
    try:
        value = Decimal(text.replace(",", "")) * factor
    except InvalidOperation:
        return None
    return int(value.to_integral_value()) if value <= INT64_MAX else None


def list_rows(
    title: str, header: Header, records: Iterable[Sequence[str]]
) -> Iterator[dict[str, Any]]:
    """Rows of `call_sums` of a table; those without a name or a figure are left out.

    A table of sizes gives rows with `bytes` and without `duration_ns`: `join_sizes` takes them up.
    """
    total, count = header.find("Total Time", "Total"), header.find(*_COUNTS)
    label = header.find(*_NAMES)
    if total is None or label is None:
        return
    unit = header.places["Total Time" if "Total Time" in header.places else "Total"][1]
    is_size = "Total Time" not in header.places
    if is_size and unit is None:
        unit = "kib"  # the versions that name no unit here say KiB above the table
    factor = (SIZES if is_size else NS).get(unit or "ns")
    if factor is None:
        return
    for record in records:
        name = replace_surrogates(record[label].strip()) if label < len(record) else ""
        figure = scale_number(record[total].strip(), factor)
        if figure is None or not name:
            continue
        row: dict[str, Any] = {**_classify(title, header, record, name), "name": name}
        row["calls"] = None if count is None else scale_number(record[count].strip(), 1)
        if is_size:
            row["bytes"] = figure
        else:
            row["duration_ns"] = figure
            for field, names in (
                ("shortest_duration_ns", ("Min", "Minimum")),
                ("longest_duration_ns", ("Max", "Maximum")),
            ):
                place = header.find(*names)
                row[field] = None if place is None else scale_number(record[place].strip(), factor)
        yield row


def list_faults(header: Header, records: Iterable[Sequence[str]]) -> Iterator[dict[str, Any]]:
    """Page faults of a table of unified memory's totals, which have no times."""
    for record in records:
        for column, place in (
            ("Total GPU PageFaults", {"kind": "traffic", "category": FAULTS}),
            ("Total CPU Page Faults", {"kind": "host", "layer": "os"}),
        ):
            at = header.find(column, column.replace("PageFaults", "Page Faults"))
            count = None if at is None else scale_number(record[at].strip(), 1)
            if count:
                name = f"[Unified Memory {column[6:9]} page faults]"
                yield {**place, "name": name, "calls": count, "duration_ns": None}


def _classify(title: str, header: Header, record: Sequence[str], name: str) -> dict[str, Any]:
    """kind, layer and category, by the columns and where these leave it open by the title."""
    category = header.find("Category")
    said = record[category].strip() if category is not None else ""
    if said == "CUDA_API":
        return name_call(name)
    if "Range" in header.places:
        return {"kind": "host", "layer": "annotation"}
    # Tables of sizes are of copies alone, whatever their columns are called.
    if said or "Total Time" not in header.places or not _DEVICE.isdisjoint(header.places):
        if _MPI.search(title):
            return {"kind": "host", "layer": "mpi"}
        return name_device_work(name)
    layer = next((layer for layer, pattern in _TITLES if pattern.search(title)), None)
    return name_call(name) if layer is None else {"kind": "host", "layer": layer}


def name_call(name: str) -> dict[str, Any]:
    """What an API's call is: of the runtime, the driver or the operating system."""
    layer = "runtime" if _CUDA.match(name) else "driver" if _DRIVER.match(name) else "os"
    return {"kind": "host", "layer": layer}


def name_device_work(name: str) -> dict[str, Any]:
    """What a device's work is, by its name: kernel, memcpy or memset."""
    is_copy = name.startswith(("[CUDA memcpy", "[CUDA Unified Memory memcpy"))
    category = COPY if is_copy else FILL if name.startswith("[CUDA memset") else KERNEL
    return {"kind": "device", "category": category}


def join_sizes(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with what is known by size alone put beside the time of the same name."""
    joined: dict[tuple[Any, ...], dict[str, Any]] = {}
    kept: list[dict[str, Any]] = []
    sizes = []
    for row in rows:
        if "bytes" in row and "duration_ns" not in row and row["kind"] == "device":
            sizes.append(row)
            continue
        kept.append(row)
        joined.setdefault((row.get("part"), row.get("pid"), row["kind"], row["name"]), row)
    for row in sizes:
        known = joined.get((row.get("part"), row.get("pid"), row["kind"], row["name"]))
        if known is None:
            kept.append(row | {"kind": "traffic"})
        else:
            known["bytes"] = (known.get("bytes") or 0) + row["bytes"]
    return kept
