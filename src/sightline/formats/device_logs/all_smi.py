"""What `all-smi record` and `all-smi snapshot` write: a JSON object for each reading of a machine.

A recording begins with a header and has an index now and then; a reading has the GPUs (NPUs, TPUs),
CPUs, memory, chassis and processes that were asked for. Numbers that a device does not have are
-1, or 0 of temperature, frequency and memory (all-smi, src/device/types.rs): they are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._samples import Samples, read_time
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import (
    count_misspelt,
    count_misspelt_keys,
    note_names,
)

IMPORTER = Importer(
    name="all_smi",
    label="all-smi record and snapshot (JSON)",
    strong=(
        rb'\A\s*\{[^\n]{0,4000}"all_smi_version"\s*:',
        rb'\A\s*(?:\[\s*)?\{\s*"schema"\s*:\s*\d+\s*,\s*"timestamp"\s*:\s*"[^"]{10,40}"\s*,\s*"hostname"',
    ),
    weak=(),
    looks_like="a header with all_smi_version, or objects with schema, timestamp, hostname, gpus",
    suffixes=(".ndjson", ".ndjson.zst", ".ndjson.gz", ".json"),
    version=4,
    source="https://github.com/lablup/all-smi/tree/main/src/record",
)

_FORMS = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z")
# Field, name as metric_names knows it, unit, factor, and whether 0 stands for no reading.
_OF_GPUS = (
    ("utilization", "GPU utilization", "%", 1, False),
    ("tensorcore_utilization", "tensorcore utilization", "%", 1, False),
    ("dla_utilization", "DLA utilization", "%", 1, False),
    ("temperature", "temperature", "C", 1, True),
    ("used_memory", "memory used", "B", 1, False),
    ("total_memory", "memory total", "B", 1, True),
    ("frequency", "GPU frequency", "MHz", 1, True),
    ("power_consumption", "power", "W", 1, False),
    ("fan_speed_rpm", "fan rotation", "rpm", 1, False),
)
# Of Hopper and later, as parts of 1.
_OF_GPM = (
    ("sm_occupancy", "SM occupancy", "%", 100, False),
    ("memory_bandwidth_utilization", "DRAM active", "%", 100, False),
)
_OF_CPUS = (
    ("utilization", "CPU utilization", "%", 1, False),
    ("temperature", "temperature", "C", 1, True),
    ("power_consumption", "power", "W", 1, False),
)
_OF_MEMORY = (
    ("used_bytes", "host memory used", "bytes", 1, False),
    ("total_bytes", "host memory total", "bytes", 1, True),
    ("swap_used_bytes", "host swap used", "bytes", 1, False),
)
_OF_CHASSIS = (
    ("total_power_watts", "power", "W", 1, False),
    ("inlet_temperature", "temperature", "C", 1, False),
)
_FIELDS = (*_OF_GPUS, *_OF_GPM, *_OF_CPUS, *_OF_MEMORY, *_OF_CHASSIS)
_KEYS = frozenset((*(field for field, *_ in _FIELDS), "gpus", "cpus", "memory", "chassis",
                   "processes", "gpm_metrics", "host_id", "device_uuid", "uses_gpu"))  # fmt: skip
Fields = tuple[tuple[str, str, str, float, bool], ...]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all readings that are whole. Raises DamagedError where none has a number."""
    quality: list[Quality] = []
    samples, bad, vendors = Samples(), 0, set[str]()
    hosts: dict[str, int] = {}
    names = 0
    for reading in _list_readings(read_text(source, quality), quality):
        at = None
        if isinstance(reading, dict):
            if reading.get("header") is True or reading.get("index") is True:
                continue
            at = read_time(str(reading.get("timestamp")), *_FORMS)
        if at is None:
            bad += 1
            continue
        names += count_misspelt_keys(reading, _KEYS)
        bad += _add_reading(reading, at, samples, hosts, vendors)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no reading in it has a number")
    quality += samples.note_gaps()
    quality += [*note_bad_lines(bad, "readings of all-smi"), *note_names(names)]
    vendor = "nvidia" if vendors == {"nvidia"} else None
    return Imported(samples.tables(vendor), Recording("all-smi"), quality)


def _list_readings(text: str, quality: list[Quality]) -> Iterator[Any]:
    """The objects: one a line, or (of `snapshot`) one document, perhaps over many lines."""
    head = text.lstrip()[:1]
    lines = text.splitlines()
    if head == "[" or (len(lines) > 1 and lines[0].strip() == "{"):
        try:
            document = parse_json(text, quality)
        except (ValueError, RecursionError):
            document = None
        yield from document if isinstance(document, list) else [document]
        return
    for line in lines:
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield None


def _add_reading(
    reading: dict[str, Any],
    at: int,
    samples: Samples,
    hosts: dict[str, int],
    vendors: set[str],
) -> int:
    """The rows of a reading; how many of its parts are none."""
    bad = 0
    for section, fields in (
        ("gpus", _OF_GPUS), ("cpus", _OF_CPUS), ("memory", _OF_MEMORY), ("chassis", _OF_CHASSIS),
    ):  # fmt: skip
        for one in _list(reading.get(section)):
            if not isinstance(one, dict):
                bad += 1
                continue
            host = hosts.setdefault(str(one.get("host_id")), len(hosts))
            if section == "gpus":
                device = _number(one, host, samples)
                vendors.add("nvidia" if "nvidia" in str(one.get("name")).lower() else "other")
                _add(samples, one, fields, at, device, None)
                if isinstance(gpm := one.get("gpm_metrics"), dict):
                    bad += count_misspelt(list(gpm), [field for field, *_ in _OF_GPM])
                    _add(samples, gpm, _OF_GPM, at, device, None)
            else:
                place = {"cpus": f"CPU {one.get('index', 0)}", "memory": "host"}.get(
                    section, section
                )
                _add(samples, one, fields, at, None, f"host {host}, {place}" if host else place)
    for process in _list(reading.get("processes")):
        bad += isinstance(process, dict) and not isinstance(process.get("uses_gpu"), bool)
        if isinstance(process, dict) and process.get("uses_gpu") is True:
            own = samples.devices.get(str(process.get("device_uuid")))
            _add(
                samples,
                process,
                (("used_memory", "process memory", "bytes", 1, False),),
                at,
                own,
                f"process {process.get('pid')}",
            )
    return bad


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(gpu: dict[str, Any], host: int, samples: Samples) -> int:
    uuid = str(gpu.get("uuid") or f"{host} {gpu.get('name')}")
    device = samples.number_device(uuid)
    name = gpu.get("name")
    if isinstance(name, str) and name:
        samples.names[device] = name
    return device


def _add(
    samples: Samples,
    told: dict[str, Any],
    fields: Fields,
    at: int,
    device: int | None,
    place: str | None,
) -> None:
    for field, name, unit, factor, is_zero_none in fields:
        value = told.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            if isinstance(value, dict | list | str | bool):
                samples.count_odd(name, str(value) or "nothing")
            continue
        if value or not is_zero_none:
            samples.add(name, float(value) * factor, at, device, place, unit)
