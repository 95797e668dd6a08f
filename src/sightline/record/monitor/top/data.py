"""What the screen shows, as data: `sightline top --json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sightline.core.watched_metrics import METRICS
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.notices import describe_event
from sightline.record.monitor.readings import GPU, HOST, INSTANCE, LINK, PROCESS, Entity, read_pid
from sightline.record.monitor.top.owners import Owner
from sightline.record.monitor.words import describe_gpu


def describe_all(latest: Latest, owners: Callable[[int], Owner]) -> dict[str, Any]:
    """Devices with their values, why others are missing, and words; the host; what happened."""
    instances, processes = latest.list_entities(INSTANCE), latest.list_entities(PROCESS)
    gpus = []
    for entity in latest.list_entities(GPU):
        device = latest.devices.get(entity.device_id or 0)
        words = describe_gpu(latest.values(entity), latest.missing(entity))
        gpus.append(
            {
                "device_id": entity.device_id,
                **({"vendor": device.vendor, "name": device.name} if device else {}),
                "values": _name_values(latest, entity),
                "missing": _name_columns(latest.missing(entity)),
                "grade": words.grade,
                "text": words.text,
                "instances": [
                    {"name": i.source, "values": _name_values(latest, i)}
                    for i in instances
                    if i.device_id == entity.device_id
                ],
                "processes": [
                    _describe_process(latest, p, owners)
                    for p in processes
                    if p.device_id == entity.device_id
                ],
            }
        )
    others = [*latest.list_entities(HOST), *latest.list_entities(LINK)]
    return {
        "time_ns": latest.wall_ns,
        "gpus": gpus,
        "host": [{"source": e.source, "values": _name_values(latest, e)} for e in others],
        "events": [describe_event(event) for event in latest.events],
    }


def _describe_process(
    latest: Latest, entity: Entity, owners: Callable[[int], Owner]
) -> dict[str, Any]:
    pid = read_pid(entity)
    return {"pid": pid, **owners(pid)._asdict(), "values": _name_values(latest, entity)}


def _name_values(latest: Latest, entity: Entity) -> dict[str, float]:
    return _name_columns(latest.values(entity))


def _name_columns(values: dict[str, Any]) -> dict[str, Any]:
    """By the names that a history has."""
    return {METRICS[m].column if m in METRICS else m: value for m, value in values.items()}
