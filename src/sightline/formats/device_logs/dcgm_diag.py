"""What `dcgmi diag` found: each test of each GPU passed, failed, warned or was skipped.

As JSON (--json): from DCGM 4 on results name an entity (`entity_group`, `entity_id`) and warnings
are objects; before, they name GPUs (`gpu_ids`) and warnings are one text. As the table that it
prints: sections between dashes, a test a row, `Fail - GPU: 3` or below it `GPU3: Fail`.
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
    name="dcgm_diag",
    label="dcgmi diag (JSON, table)",
    strong=(
        rb'"DCGM (?:GPU )?Diagnostic"\s*:\s*\{',
        rb"(?:\A|\n)\| Diagnostic +\| Result +\|",
    ),
    weak=(),
    looks_like="an object with DCGM Diagnostic, or a table with Diagnostic and Result",
    suffixes=(".json", ".txt", ".log"),
    version=5,
    source="https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html",
)

_STATES = {"pass": PASSED, "fail": FAILED, "warn": WARNED, "warning": WARNED, "skip": SKIPPED}
_KEYS = frozenset(
    (
        "DCGM Diagnostic",
        "test_categories",
        "category",
        "tests",
        "name",
        "results",
        "entity_group",
        "entity_id",
        "status",
        "warnings",
        "warning",
        "error_id",
    )
)
_MOST_DEVICE, _MOST_TEXT = 1_000, 2_000
_TABLE = re.compile(r"^\| Diagnostic +\| Result +\|", re.MULTILINE)
_SECTION = re.compile(r"^[|+]-+ +(\S[^|+]*?) +-+\+")
_ROW = re.compile(r"^\| (.{0,60}?) *\| (.*?) *\|$")
_RESULT = re.compile(
    r"^(Pass|Fail|Warn|Warning|Skip)\b(?: - (?:All|GPUs?:? ([\d, ]+)))?(?::? (\S.*))?$",
    re.IGNORECASE,
)
_FULL = 44  # characters of a cell of 46 after which dcgmi breaks a text, in the middle of a word
_OF_ENTITY = re.compile(r"^(GPU|CPU|\w+) ?(\d{1,3}): (Pass|Fail|Warn|Skip)$")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tests that have a result. Raises DamagedError where none has."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    bad: list[str] = []
    if _TABLE.search(text):
        events = list(_list_rows(text, bad))
    else:
        begin = text.find("{")  # dcgmi may warn before it
        try:
            document = parse_json(text[max(begin, 0) :], quality)
        except (ValueError, RecursionError) as error:
            why = f"it is not JSON: {error}"
            raise DamagedError(f"cannot read {source.given}", why=why) from error
        events = list(_list_results(document))
        quality += note_misspelt_keys(document, _KEYS)
    if not events:
        raise DamagedError(f"cannot read {source.given}", why="no test in it has a result")
    quality += [note_no_times(0), *note_bad_lines(len(bad), "row of the table")]
    return Imported(make_check_tables(events), Recording("dcgmi diag", of_host=True), quality)


def _list_rows(text: str, bad: list[str]) -> Iterator[CheckEvent]:
    """Tests of the table, each with the warning that stands below it; damaged lines go to `bad`."""
    section = name = ""
    found: list[CheckEvent] = []
    is_broken = False  # whether the line before was cut in the middle
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match[1].lower()
            continue
        row = _ROW.match(line)
        if row is None:
            if line.lstrip()[:1] in ("|", "+") and line.rstrip()[-1:] not in ("|", "+"):
                bad.append(line)
            continue
        label, said = row[1].strip(), row[2]
        if result := _RESULT.match(said):
            name = f"{section}/{label.lower()}".strip("/")
            numbers = re.findall(r"\d{1,3}", result[2] or "")
            listed = (result[2] or "").strip()
            if (
                (result[3] or "").startswith(("- GPU", ","))
                or re.match(r"- \S+ \d", result[3] or "")  # a list of what is no GPU
                or listed[-1:] == ","
                or (listed[:1] == "," or ", ," in listed)
            ):
                bad.append(line)  # a list of GPUs that breaks off
            devices: list[int | None] = [int(number) for number in numbers] or [None]
            state, words = _STATES[result[1].lower()], result[3] or ""
            found += [CheckEvent(0, state, name, device, words) for device in devices]
        elif (entity := _OF_ENTITY.match(said)) and name:
            device = int(entity[2]) if entity[1] == "GPU" else None
            found.append(CheckEvent(0, _STATES[entity[3].lower()], name, device, ""))
        elif found and (label.startswith(("Warning", "Info", "Error", "GPU ")) or not label):
            before = found[-1]
            between = "" if is_broken and not label else "; " if before.text and label else " "
            found[-1] = before._replace(text=f"{before.text}{between}{said}".strip()[:_MOST_TEXT])
        is_broken = len(said) >= _FULL
    yield from found


def _list_results(document: Any) -> Iterator[CheckEvent]:
    top = document if isinstance(document, dict) else {}
    for key in ("DCGM Diagnostic", "DCGM GPU Diagnostic"):
        inner = top.get(key)
        for category in _list_objects(inner, "test_categories"):
            for test in _list_objects(category, "tests"):
                name = f"{category.get('category', '')}/{test.get('name', '')}".strip("/").lower()
                for result in _list_objects(test, "results"):
                    yield from _read_result(name, result)


def _list_objects(value: Any, key: str) -> list[dict[str, Any]]:
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _read_result(name: str, result: dict[str, Any]) -> Iterator[CheckEvent]:
    state = _STATES.get(str(result.get("status", "")).strip().lower())
    if state is None:
        return
    text = "; ".join([*_list_texts(result.get("warnings")), *_list_texts(result.get("info"))])
    for device in _list_devices(result):
        yield CheckEvent(0, state, name, device, text)


def _list_texts(value: Any) -> list[str]:
    """Texts of a text, of objects with one, or of a list of either."""
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, dict):
        return _list_texts(value.get("warning") or value.get("info"))
    if isinstance(value, list):
        return [
            text for item in value[:100] for text in _list_texts(item) if not isinstance(item, list)
        ]
    return []


def _list_devices(result: dict[str, Any]) -> list[int | None]:
    """GPUs of a result; None for the host, for other entities, and where none is named."""
    entity = result.get("entity_id")
    if isinstance(entity, int) and str(result.get("entity_group", "GPU")).upper() == "GPU":
        return [entity if 0 <= entity < _MOST_DEVICE else None]
    named = re.findall(r"\d{1,3}", str(result.get("gpu_ids", "")))
    return [int(number) for number in named] or [None]
