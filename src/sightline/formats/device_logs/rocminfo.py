"""What `rocminfo` prints: the agents of a machine with AMD's runtime, its GPUs among them.

It says what the GPUs are, not what they did: each is a row of `devices`. A value stands behind its
name and a colon, with its hexadecimal form and unit behind it; pools and instruction sets are
indented below their agent. AMD ROCm documentation, rocminfo; ROCm/rocminfo, rocminfo.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.units import INT64_MAX, format_several
from sightline.errors import DamagedError
from sightline.formats._stacks import read_text

IMPORTER = Importer(
    name="rocminfo",
    label="rocminfo",
    strong=(rb"(?:\A|\n)=+\s*\r?\nHSA System Attributes\s*\r?\n",),
    weak=(),
    looks_like="HSA System Attributes, then HSA Agents",
    suffixes=(".txt", ".log", ".out"),
    version=1,
    source="https://rocm.docs.amd.com/projects/rocminfo/en/latest/",
)

_AGENT = re.compile(r"^Agent (\d{1,4})\s*$")
_FIELD = re.compile(r"^( *)([^:]{1,60}?)::?\s*(.*?)\s*$")
_NUMBER = re.compile(r"^(\d{1,19})(?:\(0x[0-9a-fA-F]+\))?(?: KB)?$")
_COLUMNS = {
    "sm_count": "Compute Unit",
    "warp_size": "Wavefront Size",
    "max_threads_per_sm": "Max Work-item Per CU",
}
_SCHEMA = {
    "device_id": pl.Int64, "vendor": pl.String, "name": pl.String, "uuid": pl.String,
    "sm_count": pl.Int64, "max_clock_hz": pl.Int64, "memory_bytes": pl.Int64,
    "l2_bytes": pl.Int64, "warp_size": pl.Int64, "max_threads_per_sm": pl.Int64,
}  # fmt: skip
_FAILED = re.compile(r"^hsa api call failure|HSA_STATUS_ERROR|^ROCk module is NOT loaded")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all GPUs. Raises DamagedError where no agent is one."""
    quality: list[Quality] = []
    lines = read_text(source, quality).splitlines()
    agents = list(_list_agents(lines))
    gpus = [agent for agent in agents if agent.get("Device Type") == "GPU"]
    failed = [line.strip() for line in lines if _FAILED.search(line)]
    if not gpus:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it has {format_several(len(agents), 'agent')}, and none is a GPU"
            + (f": {failed[0][:120]}" if failed else ""),
            hint="Check whether the driver is loaded (lsmod | grep amdgpu), and whether this user "
            "is in the groups render and video.",
        )
    rows = [_describe(n, gpu, options) for n, gpu in enumerate(gpus)]
    text = "rocminfo says what the GPUs are, not what they did"
    remedy = "Record a program:  sightline run -- PROGRAM"
    quality.append(Quality("no_samples", "info", text, None, remedy))
    if failed:
        text = f"rocminfo met an error: {failed[0][:120]}"
        quality.append(Quality("reported_error", "warning", text, len(failed)))
    if not any(line.startswith("*** Done ***") for line in lines):
        text = "the text ends before rocminfo was done: agents may be missing"
        quality.append(Quality("cut_off", "warning", text))
    return Imported({"devices": pl.DataFrame(rows, schema=_SCHEMA)}, Recording("rocminfo"), quality)


def _list_agents(lines: list[str]) -> Iterator[dict[str, str]]:
    """Each agent's own values, with those of its caches and its pools under `L2` and `Size`."""
    agent: dict[str, str] = {}
    segment = ""
    for line in lines:
        if _AGENT.match(line):
            if agent:
                yield agent
            agent, segment = {"Agent": line}, ""
            continue
        field = _FIELD.match(line)
        if not agent or field is None:
            continue
        name, value = field[2].strip(), field[3]
        if name == "Segment":
            segment = value
        elif name == "Size" and segment.startswith("GLOBAL"):
            # A GPU's memory may be in several pools, of one size: fine and coarse grained.
            agent["Size"] = max(agent.get("Size", "0"), value, key=lambda v: _count(v) or 0)
        elif name != "Size":
            agent.setdefault(name, value)
    if agent:
        yield agent


def _describe(number: int, gpu: dict[str, str], options: ImportOptions) -> dict[str, Any]:
    clock, size, l2 = (_count(gpu.get(n)) for n in ("Max Clock Freq. (MHz)", "Size", "L2"))
    known = {column: _count(gpu.get(name)) for column, name in _COLUMNS.items()}
    marketed = gpu.get("Marketing Name") or ""
    return {
        "device_id": number,
        "vendor": "amd",
        "name": marketed if marketed.strip() else gpu.get("Name"),
        "uuid": gpu.get("Uuid") if options.keep_identity else None,
        "max_clock_hz": _scale(clock, 10**6),
        "memory_bytes": _scale(size, 1024),
        "l2_bytes": _scale(l2, 1024),
        **known,
    }


def _count(text: str | None) -> int | None:
    found = _NUMBER.match((text or "").strip())
    return int(found[1]) if found and int(found[1]) <= INT64_MAX else None


def _scale(value: int | None, unit: int) -> int | None:
    return None if value is None or value > INT64_MAX // unit else value * unit
