"""What `xpu-smi health` and `xpumcli health` say of each part of an Intel GPU.

As JSON (-j) a device is an object whose parts are objects with a `status`; -l lists devices. As a
table a part has a cell of its own: `1. GPU Core Temperature` before 2.0, `[ core_temperature ]`
from 2.0 on. OK is well, Warning and Critical are not, Unknown says that it could not be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._samples import note_no_times
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import note_misspelt_keys
from sightline.formats.device_logs._check_events import (
    FAILED,
    PASSED,
    SKIPPED,
    WARNED,
    CheckEvent,
    make_check_tables,
)

IMPORTER = Importer(
    name="xpu_smi_health",
    label="xpu-smi health (JSON, table)",
    strong=(
        rb'"(?:core_temperature|memory_temperature|memory_health|power_health|frequency_health'
        rb'|memory|power|frequency|xe_link_port)"\s*:\s*\{[^{}]{0,1000}"status"\s*:\s*"'
        rb'(?:OK|Ok|Warning|Critical|Unknown)"',
        rb"\| Device ID +\| \d+ +\|\r?\n[^\n]{0,300}\n\| (?:\d\. (?:GPU|Xe) |\[ \w+ \])",
    ),
    weak=(),
    looks_like='{"device_id": 0, "core_temperature": {"status": "OK", …}}, or its table',
    suffixes=(".json", ".txt", ".log"),
    version=2,
    source="https://intel.github.io/xpumanager/2.0/xpu-smi/health.html",
)

_STATES = {"ok": PASSED, "warning": WARNED, "critical": FAILED, "unknown": SKIPPED}
_KEYS = frozenset(("device_list", "device_id", "status", "description", "core_temperature",
                   "memory_temperature", "memory_health", "power_health", "frequency_health",
                   "xe_link_port"))  # fmt: skip
_MOST_DEVICE, _MOST_TEXT = 1_000, 2_000
_ROW = re.compile(r"^\| (.{0,60}?) *\| ?(.*?) *\|\s*$")
_PART = re.compile(r"^(?:\d\. (.+)|\[ (\w+) \])$")
_RESERVED = "unsupported_item_health"  # the place of Xe Link, which 2.0 no longer looks at
_FIELD = re.compile(r"^(Status|Description|status|description)$")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read every part that has a status. Raises DamagedError where none has."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    bad: list[str] = []
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = parse_json(text, quality)
        except (ValueError, RecursionError) as error:
            why = f"it is not JSON: {error}"
            raise DamagedError(f"cannot read {source.given}", why=why) from error
        events = list(_list_parts(document, bad))
        quality += note_misspelt_keys(document, _KEYS)
    else:
        events = list(_list_rows(text, bad))
    if not events:
        raise DamagedError(f"cannot read {source.given}", why="no part of a GPU in it has a status")
    quality += [note_no_times(0), *note_bad_lines(len(bad), "part of a GPU")]
    return Imported(make_check_tables(events), Recording("xpu-smi health", of_host=True), quality)


def _list_parts(document: Any, bad: list[str]) -> Iterator[CheckEvent]:
    """Parts of every device of the JSON; what is none goes to `bad`."""
    listed = document.get("device_list") if isinstance(document, dict) else document
    for device in listed if isinstance(listed, list) else [document]:
        if not isinstance(device, dict):
            bad.append(str(device)[:80])
            continue
        number = _read_number(device.get("device_id"))
        if number is None:
            bad.append("device_id")
        for name, part in device.items():
            if isinstance(part, dict) and name != _RESERVED:
                event = _make_event(name, number, part.get("status"), part.get("description"))
                bad += [name] if event is None else []
                yield from [event] if event is not None else []


def _list_rows(text: str, bad: list[str]) -> Iterator[CheckEvent]:
    """Parts of every device of the table; lines that are cut and parts without a status: `bad`."""
    number: int | None = None
    name = ""
    said: dict[str, str] = {}
    for line in [*text.splitlines(), "| Device ID | |"]:
        row = _ROW.match(line)
        if row is None:
            if line.startswith("|"):
                bad.append(line)
            continue
        title, value = row[1].strip(), row[2].strip()
        part = _PART.match(title)
        if part or title == "Device ID":
            if name and name != _RESERVED:
                event = _make_event(name, number, said.get("status"), said.get("description"))
                bad += [name] if event is None else []
                yield from [event] if event is not None else []
            name = ((part[1] or part[2]) if part else "").strip()
            said = {}
        if title == "Device ID":
            number = _read_number(value)
        elif _FIELD.match(title):  # from 2.0 on the first column names what a line says
            said[title.lower()] = value
        elif name and not (part and part[2]):
            key, colon, rest = value.partition(": ")
            if colon and key in ("Status", "Description"):
                said[key.lower()] = rest
            elif "description" in said and value and not colon:  # a description of two lines
                said["description"] = f"{said['description']} {value}"[:_MOST_TEXT]


def _make_event(name: str, number: int | None, status: Any, text: Any) -> CheckEvent | None:
    """One verdict; None where its status is not a word of the tool's."""
    state = _STATES.get(status.strip().lower()) if isinstance(status, str) else None
    if state is None:
        return None
    words = text[:_MOST_TEXT] if isinstance(text, str) else ""
    return CheckEvent(0, state, _name_part(name), number, words)


def _name_part(name: str) -> str:
    """`core temperature` of `1. GPU Core Temperature`, `core_temperature` and `power_health`."""
    plain = name.replace("_", " ").strip().lower()
    return plain.removeprefix("gpu ").removesuffix(" health")


def _read_number(value: Any) -> int | None:
    """The number of a device; None where it is none that can be."""
    text = str(value).strip() if isinstance(value, (int, str)) else ""
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) and int(text) < _MOST_DEVICE else None
