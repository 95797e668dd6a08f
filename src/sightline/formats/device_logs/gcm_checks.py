"""What gcm's health checks found (facebookresearch/gcm), as its sinks write it: JSON lines.

The sink `stdout` writes a list of checks a line, `file` one check a line with its values by type.
`result` is Nagios' code: 0 well, 1 a warning, 2 critical, 3 unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._samples import note_no_times
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import note_blank_lines
from sightline.formats.device_logs._check_events import (
    FAILED,
    PASSED,
    SKIPPED,
    WARNED,
    CheckEvent,
    make_check_tables,
)

IMPORTER = Importer(
    name="gcm_checks",
    label="gcm's health checks (JSON lines)",
    strong=(rb'(?:\A|\n)[ \t]*\[?\{[^\n]{0,2000}"health_check"\s*:\s*"[^\n]{0,2000}"result"\s*:',
            rb'(?:\A|\n)[ \t]*\[?\{[^\n]{0,2000}"result"\s*:[^\n]{0,2000}"health_check"\s*:\s*"'),
    weak=(),
    looks_like='lines such as [{"health_check": "check_dcgmi_diag", "result": 2, …}]',
    suffixes=(".json", ".jsonl", ".log", ".txt"),
    version=2,
    source="https://github.com/facebookresearch/gcm/blob/main/gcm/schemas/health_check/log.py",
)  # fmt: skip

_RESULTS = {0: PASSED, 1: WARNED, 2: FAILED, 3: SKIPPED}
_GPU = re.compile(r"\bGPU(?: id| index)?[ :]{1,3}(\d{1,3})\b", re.IGNORECASE)
_MOST_S = 2**31


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all checks that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    events: list[CheckEvent] = []
    bad = 0
    text = read_text(source, quality)
    quality += note_blank_lines(text)
    for line in text.splitlines():
        if not line.lstrip().startswith(("{", "[")):
            bad += '":' in line or '"health_check' in line
            continue
        found = list(_list_checks(line))
        events += [event for event in found if event is not None]
        bad += found.count(None)
    if not events:
        raise DamagedError(f"cannot read {source.given}", why="no check in it has a result")
    if not any(event.time_ns for event in events):
        quality.append(note_no_times(0))
    quality += note_bad_lines(bad, "check of gcm")
    return Imported(make_check_tables(events), Recording("gcm", of_host=True), quality)


def _list_checks(line: str) -> Iterator[CheckEvent | None]:
    """The checks of a line; None for each that is none, and for a line that is not JSON."""
    try:
        document = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError):
        yield None
        return
    for one in document if isinstance(document, list) else [document]:
        yield _read_check(one) if isinstance(one, dict) else None


def _read_check(one: dict[str, Any]) -> CheckEvent | None:
    values = dict(one)
    for inner in one.values():
        values |= inner if isinstance(inner, dict) else {}
    name, result = values.get("health_check"), values.get("result")
    state = _RESULTS.get(result) if isinstance(result, int) else None
    if not isinstance(name, str) or state is None:
        return None
    text = replace_surrogates(str(values.get("_msg") or ""))
    gpu = _GPU.search(text)
    device = int(gpu[1]) if gpu else None
    time_ns = _read_time(values.get("end_time"))
    return CheckEvent(time_ns, state, replace_surrogates(name), device, text)


def _read_time(value: Any) -> int:
    is_time = isinstance(value, (int, Decimal)) and 0 < value < _MOST_S
    return int(value * 10**9) if is_time else 0
