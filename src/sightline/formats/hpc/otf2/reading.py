"""Turns what the library read of an archive into tables."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError, InputError

# OTF2_PARADIGM and OTF2_REGION_ROLE, by the layer or kind that they are here.
_LAYERS = {"MPI": "mpi", "HIP": "runtime", "CUDA": "runtime", "OPENCL": "runtime"}
_LAYERS |= {"USER": "annotation", "OPENMP": "openmp", "KOKKOS": "annotation"}
_VENDORS = {"HIP": "amd", "CUDA": "nvidia"}
_OWN = ("MEASUREMENT_SYSTEM",)  # Score-P's own ranges
# On a device's stream this role is Score-P's range "COMPUTE IDLE": nothing runs in it.
_IDLE = "ARTIFICIAL"
# Of a library that hangs on a damaged file; a gigabyte takes it some ten minutes.
_PATIENCE_S, _PATIENCE_S_PER_MB = 60, 2


def read_archive(source: Source, options: ImportOptions) -> Imported:
    """Read all locations. Raises DamagedError, InputError where the library is not installed."""
    if importlib.util.find_spec("otf2") is None:
        raise InputError(
            f"cannot read {source.given}",
            why="OTF2's library is not installed",
            hint="Install it:  pip install otf2",
        )
    with tempfile.TemporaryDirectory() as folder:
        facts = _run_library(source, Path(folder))
        ranges = pl.read_ipc(Path(folder) / "ranges.arrow")
        copies = pl.read_ipc(Path(folder) / "copies.arrow")
        values = pl.read_ipc(Path(folder) / "values.arrow")
        records = pl.read_ipc(Path(folder) / "records.arrow")
    notes = _check(facts)
    places = pl.DataFrame([_place(*p) for p in _number(facts["locations"])], _PLACES, orient="row")
    placed = ranges.filter(~pl.col("paradigm").is_in(_OWN)).join(places, on="place", how="inner")
    copied = copies.join(places, on="place", how="inner")
    if placed.is_empty() and copied.is_empty() and values.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="it has no complete record")
    host = _nest(placed.filter(~pl.col("is_gpu")))
    devices = placed.filter("is_gpu").filter(pl.col("role") != _IDLE)
    vendors = devices.get_column("paradigm").replace_strict(
        _VENDORS, default=None, return_dtype=pl.String
    )
    known = places.filter("is_gpu").select("device_id").unique().sort("device_id")
    vendor = vendors.drop_nulls().to_list()[:1]
    return Imported(
        {
            "host_ops": host.drop("range"),
            "mpi_events": _place_records(records, host),
            "device_ops": _list_device_ops(devices, copied, host),
            "devices": known.with_columns(vendor=pl.lit(*vendor) if vendor else pl.lit(None)),
            "threads": _name_threads(places.filter(~pl.col("is_gpu"))),
            "counters": values.join(places, on="place", how="left").select(
                "metric", "unit", "time_ns", "value", source="location"
            ),
        },
        Recording("OTF2"),
        notes,
    )


def _run_library(source: Source, folder: Path) -> dict[str, Any]:
    """Have the child write its files. Raises DamagedError where it does not."""
    anchor = _find_anchor(source)
    command = [sys.executable, "-m", "sightline.formats.hpc.otf2.child", str(anchor), str(folder)]
    size = sum(p.stat().st_size for p in source.path.rglob("*") if p.is_file())
    patience = _PATIENCE_S + _PATIENCE_S_PER_MB * size / 1e6
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, errors="replace", timeout=patience, check=False
        )
        why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        why = "it did not end"
    try:
        facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    except (OSError, ValueError) as error:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"OTF2's library gave up ({why[:200]})",
            hint="The archive is whole where  otf2-print traces.otf2  reads it.",
        ) from error
    return facts


def _find_anchor(source: Source) -> Path:
    """The archive's own file. Raises InputError where a folder has those of several."""
    found = sorted(p for p in source.path.glob("*.otf2") if p.with_suffix(".def").is_file())
    if len(found) > 1:
        raise InputError(
            f"cannot read {source.given}",
            why=f"it holds several archives: {', '.join(p.name for p in found[:4])}",
            hint="Move each into a folder of its own, with its .def and its folder of events.",
        )
    return found[0]


def _check(facts: dict[str, Any]) -> list[Quality]:
    notes = []
    if facts["damage"]:
        text = f"the archive is damaged ({facts['damage'][:200]}): what follows is left out"
        notes.append(Quality("damaged", "error", text))
    elif facts["missing"]:
        text = "records that the archive's definitions count are missing"
        notes.append(Quality("missing_rows", "error", text, facts["missing"]))
    if facts["unmatched"]:
        text = (
            "ranges whose start is missing were left out; those whose end is missing end "
            "with the recording, and copies without one of the two were left out"
        )
        notes.append(Quality("unclosed_ranges", "warning", text, facts["unmatched"]))
    return notes


_PLACES = {
    "place": pl.Int64,
    "location": pl.String,
    "group": pl.String,
    "is_gpu": pl.Boolean,
    "pid": pl.Int64,
    "tid": pl.Int64,
    "device_id": pl.Int64,
    "stream_id": pl.Int64,
}


def _number(locations: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], int, int]]:
    """Each location's number, its facts, its group's number among its kind, and its own there."""
    groups: dict[bool, dict[int, int]] = {True: {}, False: {}}
    members: dict[int, int] = {}
    found = []
    for at, location in enumerate(locations):
        of_kind = groups[location["is_gpu"]]
        group = of_kind.setdefault(location["group_id"], len(of_kind))
        own = members[location["group_id"]] = members.get(location["group_id"], -1) + 1
        found.append((at, location, group, own))
    return found


def _place(at: int, facts: dict[str, Any], group: int, own: int) -> tuple[Any, ...]:
    host, gpu = ((group, own), (None, None)), ((None, None), (group, own))
    (pid, tid), (device, stream) = gpu if facts["is_gpu"] else host
    return at, facts["name"], facts["group"], facts["is_gpu"], pid, tid, device, stream


def _name_threads(places: pl.DataFrame) -> pl.DataFrame:
    """Threads; where there are several processes their names tell whose: each has a master."""
    several = places.get_column("group").n_unique() > 1
    name = pl.format("{} · {}", "group", "location") if several else pl.col("location")
    return places.select("pid", "tid", process_name="group", thread_name=name)


def _nest(ranges: pl.DataFrame) -> pl.DataFrame:
    layer = pl.col("paradigm").replace_strict(_LAYERS, default="other", return_dtype=pl.String)
    named = ranges.select(
        "start_ns",
        "end_ns",
        "pid",
        "tid",
        "name",
        "range",
        correlation_id="call",
        layer=layer,
        range_kind=pl.when(layer == "annotation").then(pl.lit("pushpop")),
    )
    return nest_ranges(named, apart=pl.lit(value=False))


def _place_records(records: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """MPI's records with the call that each one was written in."""
    calls = host.select("range", "host_op_id")
    return records.join(calls, on="range", how="inner").sort("host_op_id").drop("range")


def _list_device_ops(
    ranges: pl.DataFrame, copies: pl.DataFrame, host: pl.DataFrame
) -> pl.DataFrame:
    """Kernels and copies; a callsite's number names the call, where no other range has it."""
    once = (
        host.filter(pl.col("correlation_id").is_not_null())
        .unique("correlation_id", keep="none")
        .select("correlation_id", launch_id="host_op_id")
    )
    is_copy = pl.col("role") == "DATA_TRANSFER"
    place = ("start_ns", "end_ns", "device_id", "stream_id")
    listed = [
        ranges.select(
            *place,
            "name",
            kind=pl.when(is_copy).then(pl.lit("memcpy")).otherwise(pl.lit("kernel")),
            correlation_id="call",
        ),
        copies.select(
            *place,
            "copy_kind",
            "bytes",
            name=pl.format("memory copy {}", "copy_kind"),
            kind=pl.lit("memcpy"),
        ),
    ]
    return (
        pl.concat(listed, how="diagonal")
        .sort("start_ns", "end_ns", maintain_order=True)
        .join(once, on="correlation_id", how="left", maintain_order="left")
        .with_columns(device_op_id=pl.int_range(pl.len(), dtype=pl.Int64))
    )
