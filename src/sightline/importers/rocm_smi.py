"""`rocm-smi --json`: the GPUs of a machine at one moment, by card.

Keys are texts with their unit in brackets, and differ from release to release; values are texts,
too. What is no number is left out.
"""

from __future__ import annotations

import re

from sightline.errors import DamagedError
from sightline.importers._json import parse_json
from sightline.importers._samples import Samples, note_no_times
from sightline.importers._stacks import read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

IMPORTER = Importer(
    name="rocm_smi",
    label="rocm-smi --json",
    strong=(rb'\A\s*\{\s*"(?:card\d+|system)"\s*:\s*\{\s*"',),
    weak=(),
    looks_like="an object with card0, card1, …",
    suffixes=(".json",),
    version=1,
    source="https://rocm.docs.amd.com/projects/rocm_smi_lib/en/latest/",
)

_UNIT = re.compile(r"^(.*?)\s*\(([^()]*)\)\s*:?$")
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
    try:
        document = parse_json(text, quality)
        cards = {k: v for k, v in document.items() if re.fullmatch(r"card\d{1,4}", k)}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is no whole answer of rocm-smi ({error})"
        ) from error
    samples = Samples()
    for card, values in cards.items():
        if not isinstance(values, dict):
            continue
        device = samples.number_device(card, int(card[4:]))
        names = [values.get(key) for key in ("Card Series", "Card series", "Device Name")]
        known = [n for n in names if isinstance(n, str) and n != "N/A" and not n.startswith("0x")]
        if known:
            samples.names[device] = known[0]
        for key, value in values.items():
            if isinstance(value, str) and not _NO_SAMPLES.match(key):
                _add(samples, key, value, device)
    if not samples.rows:
        raise DamagedError(f"cannot read {source.given}", why="no card in it has a number")
    quality.append(note_no_times(0))
    return Imported(samples.tables("amd"), Recording("rocm-smi"), quality)


def _add(samples: Samples, key: str, text: str, device: int) -> None:
    sensor = _SENSOR.match(key)
    found = _UNIT.match(key)
    if sensor and sensor[1] not in ("edge", "memory"):
        samples.add("temperature", text, 0, device, sensor[1], "C")
    elif sensor:
        samples.add(f"Temperature Sensor {sensor[1]}", text, 0, device, unit="C")
    elif found:
        samples.add(found[1], text, 0, device, unit=found[2])
    else:
        samples.add(key.strip(": "), text, 0, device)
