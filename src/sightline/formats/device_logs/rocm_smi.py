"""`rocm-smi --json` and `--csv`: the GPUs of a machine at one moment, or many in one log, by card.

Keys are texts with their unit in brackets, and differ from release to release; values are texts,
too. What is no number is left out. CSV has the same keys as columns, and a header for each table:
what follows a header that was there before is a later reading.
"""

from __future__ import annotations

import csv
import re
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._samples import Samples, note_no_times
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="rocm_smi",
    label="rocm-smi --json and --csv",
    strong=(
        rb'\A\s*\{\s*"(?:card\d+|system)"\s*:\s*\{\s*"',
        rb"(?:\A|\n)device,(?:Temperature \(Sensor|GPU |Average |Current Socket|VRAM|VIS_VRAM|GTT"
        rb"|[a-z]+clk clock|Fan |Performance|Max Graphics|Energy counter|Voltage|PCIe"
        rb"|Memory Activity)",
    ),
    weak=(),
    looks_like="an object with card0, card1, …, or a header such as device,GPU use (%)",
    suffixes=(".json", ".csv", ".txt", ".log"),
    version=6,
    source="https://rocm.docs.amd.com/projects/rocm_smi_lib/en/latest/",
)

_UNIT = re.compile(r"^(.*?)\s*\(([^()]*)\)\s*:?$")
_CARD = re.compile(r"card\d{1,4}")
_SENSOR = re.compile(r"^Temperature \(Sensor (.*)\) \(C\)$")
# What a card is, and what it could do.
_NO_SAMPLES = re.compile(
    r"(?i)^(?:\d+$|device id|device rev|unique id|vbios|serial|pci bus|card |gpu id$|guid$|gfx|node"
    r"|subsystem|gpu memory vendor|performance level)"
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all cards. Raises DamagedError where no card has a number."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    samples, bad = Samples(), 0
    if text.lstrip().startswith("{"):
        rounds = 1
        for card, values in _read_json(source, text, quality).items():
            if isinstance(values, dict):
                _add_card(card, values, 0, samples)
            else:
                bad += 1
    else:
        readings, bad = _read_lines(text)
        rounds = max((number for number, _, _ in readings), default=0) + 1
        for number, card, told in readings:
            _add_card(card, told, number * 10**9, samples)
    if not samples.has_values():
        raise DamagedError(f"cannot read {source.given}", why="no card in it has a reading")
    quality.append(note_no_times(1 if rounds > 1 else 0))
    quality += samples.note_gaps()
    quality += note_bad_lines(bad, "lines of rocm-smi")
    return Imported(samples.tables("amd"), Recording("rocm-smi"), quality)


def _read_json(source: Source, text: str, quality: list[Quality]) -> dict[str, Any]:
    try:
        document = parse_json(text, quality)
        return {k: v for k, v in document.items() if _CARD.fullmatch(k)}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not a whole answer of rocm-smi ({error})"
        ) from error


def _read_lines(text: str) -> tuple[list[tuple[int, str, dict[str, str]]], int]:
    """Number of the reading, card and its values of each line; and how many lines are none."""
    found, bad, rounds = [], 0, 0
    header: list[str] = []
    headers = set[tuple[str, ...]]()
    for line in text.splitlines():
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            cells = []
        if cells[:1] == ["device"]:
            header = cells
            if tuple(header) in headers:
                rounds, headers = rounds + 1, set()
            headers.add(tuple(header))
        elif header and cells and _CARD.fullmatch(cells[0]) and len(cells) == len(header):
            found.append((rounds, cells[0], dict(zip(header[1:], cells[1:], strict=True))))
        elif header and line.strip() and cells[:1] != ["system"]:
            bad += 1
    return found, bad


def _add_card(card: str, values: dict[str, Any], at: int, samples: Samples) -> None:
    device = samples.number_device(card, int(card[4:]))
    names = [values.get(key) for key in ("Card Series", "Card series", "Device Name")]
    known = [n for n in names if isinstance(n, str) and n != "N/A" and not n.startswith("0x")]
    if known:
        samples.names[device] = known[0]
    for key, value in values.items():
        if _NO_SAMPLES.match(key):
            continue
        if isinstance(value, str):
            _add(samples, key, value, at, device)
        else:
            samples.count_odd(key, value)


def _add(samples: Samples, key: str, text: str, at: int, device: int) -> None:
    sensor = _SENSOR.match(key)
    found = _UNIT.match(key)
    if sensor and sensor[1] not in ("edge", "memory"):
        samples.add("temperature", text, at, device, sensor[1], "C")
    elif sensor:
        samples.add(f"Temperature Sensor {sensor[1]}", text, at, device, unit="C")
    elif found and found[2] == "level":  # of 255; the share has a key of its own
        samples.add(key, text, at, device)
    elif found:
        samples.add(found[1], text, at, device, unit=found[2])
    else:
        samples.add(key.strip(": "), text, at, device)
