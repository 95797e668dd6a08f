"""What gpud says of a node: its /v1/states and /v1/events as JSON.

A list of components, each with states (health: Healthy, Degraded, Unhealthy, Initializing) or with
events (type: Info, Warning, Critical, Fatal).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._asked_names import AskedNames
from sightline.formats._json import parse_json
from sightline.formats._samples import note_no_times
from sightline.formats._stacks import read_text
from sightline.formats.device_logs._check_events import (
    FAILED,
    PASSED,
    SKIPPED,
    WARNED,
    CheckEvent,
    make_check_tables,
)

IMPORTER = Importer(
    name="gpud_states",
    label="gpud's states and events (JSON)",
    strong=(
        rb'"component"\s*:\s*"[\w.-]{1,80}"\s*,(?:\s*"(?:startTime|endTime)"\s*:\s*"[^"]{0,40}"\s*,)*'
        rb'\s*"(?:states|events)"\s*:\s*\[',
    ),
    weak=(),
    looks_like="a list of objects with component and states, or component and events",
    suffixes=(".json",),
    version=5,
    source="https://github.com/leptonai/gpud",
)

_HEALTH = {"healthy": PASSED, "degraded": WARNED, "unhealthy": FAILED, "initializing": SKIPPED}
_TYPES = {"info": PASSED, "warning": WARNED, "critical": FAILED, "fatal": FAILED}
_SPLIT = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\d*(Z|[+-]\d\d:\d\d)$")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all states and events. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    asked = AskedNames()
    try:
        document = parse_json(read_text(source, quality), quality, names=asked)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"cannot read {source.given}", why=f"it is not JSON: {error}") from error
    events = list(_list_verdicts(document))
    if not events:
        raise DamagedError(f"cannot read {source.given}", why="no component in it has a state")
    if not any(event.time_ns for event in events):
        quality.append(note_no_times(0))
    asked.note(quality)
    return Imported(make_check_tables(events), Recording("gpud", of_host=True), quality)


def _list_verdicts(document: Any) -> Iterator[CheckEvent]:
    components = document if isinstance(document, list) else [document]
    for component in components:
        if not isinstance(component, dict):
            continue
        name = str(component.get("component", ""))
        for key, word, table in (("states", "health", _HEALTH), ("events", "type", _TYPES)):
            for one in component.get(key) or () if isinstance(component.get(key), list) else ():
                state = table.get(str(one.get(word, "")).lower()) if isinstance(one, dict) else None
                if state is not None:
                    yield CheckEvent(_read_time(one.get("time")), state, name, None, _write(one))


def _write(one: dict[str, Any]) -> str:
    """The reason, with the actions that gpud suggests."""
    text = str(one.get("reason") or one.get("message") or one.get("name") or "")
    suggested = one.get("suggested_actions")
    actions = suggested.get("repair_actions") if isinstance(suggested, dict) else None
    if isinstance(actions, list) and actions:
        words = ", ".join(str(action).lower().replace("_", " ") for action in actions[:4])
        text += f" (gpud suggests: {words})"
    return text


def _read_time(value: Any) -> int:
    found = _SPLIT.match(value) if isinstance(value, str) else None
    if found is None:
        return 0
    try:
        moment = datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00"))
    except ValueError:
        return 0
    since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + int((found[2] or "0").ljust(9, "0"))
