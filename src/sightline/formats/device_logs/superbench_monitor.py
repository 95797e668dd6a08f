"""The monitor's log of SuperBench: a JSON object for each reading of a node, one a line.

Keys are a metric and, of GPUs, their number after a colon. Memory is in bytes, traffic of network
interfaces in MiB/s, and the CPU's use in percent of one core (superbench/monitor/monitor.py).
"""

from __future__ import annotations

import json
import re

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import Samples, note_zone, read_time
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import note_blank_lines

IMPORTER = Importer(
    name="superbench_monitor",
    label="SuperBench monitor (JSON lines)",
    strong=(rb'\A\{"time": "[^"]{19}", "cpu_usage": ',),
    weak=(),
    looks_like="objects with time, cpu_usage, gpu_usage:0, gpu_temperature:0",
    suffixes=(".jsonl", ".json"),
    version=4,
    source="https://microsoft.github.io/superbenchmark/docs/superbench-config",
)

_OF_GPU = re.compile(r"^(gpu_\w+):(\d{1,4})$")
_TRAFFIC = re.compile(r"^(.{1,80})_(receive|transmit)_bw$")
_MIB = 1 << 20


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    samples, bad = Samples(), 0
    text = read_text(source, quality)
    quality += note_blank_lines(text)
    for line in text.splitlines():
        try:
            told = json.loads(line)
            at = read_time(str(told["time"]), "%Y-%m-%d %H:%M:%S")
        except (ValueError, TypeError, LookupError, RecursionError):
            at, told = None, None
        if at is None or not isinstance(told, dict):
            bad += bool(line.strip())
            continue
        bad += any(key.startswith("gpu_") and not _OF_GPU.match(key) for key in told)
        for key, value in told.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                _add(samples, key, float(value), at)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    quality += samples.note_gaps()
    quality += [note_zone(), *note_bad_lines(bad, "readings of SuperBench")]
    return Imported(samples.tables(None), Recording("superbench"), quality)


def _add(samples: Samples, key: str, value: float, at: int) -> None:
    gpu, traffic = _OF_GPU.match(key), _TRAFFIC.match(key)
    if gpu:
        unit = "B" if gpu[1] in ("gpu_mem_used", "gpu_mem_total") else ""
        samples.add(gpu[1], value, at, samples.number_device(gpu[2], int(gpu[2])), None, unit)
    elif traffic:
        name = {"receive": "network received", "transmit": "network sent"}[traffic[2]]
        samples.add(name, value * _MIB, at, None, traffic[1], "bytes/s")
    elif key == "cpu_usage":
        samples.add("CPU utilization", value, at, None, "cores x 100 %", "%")
    else:
        samples.add(key, value, at)
