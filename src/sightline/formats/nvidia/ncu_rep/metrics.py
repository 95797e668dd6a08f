"""Metric values of a result, with their instances."""

from __future__ import annotations

from typing import Any

from sightline.core.protobuf import DamagedMessageError, decode_text, parse_message
from sightline.formats._ncu import MetricRows, Value
from sightline.formats.nvidia._ncu_old_names import list_renamed
from sightline.formats.nvidia.ncu_rep.schema import MESSAGES

_METRIC = MESSAGES["Metric"]
_NUMBERS = ("Uint64Value", "Uint32Value", "DoubleValue", "FloatValue")


def add_metrics(
    rows: MetricRows, kernel_id: int, metrics: list[bytes], strings: list[str]
) -> tuple[dict[str, Value], int]:
    """Add all metrics of a result to `rows`; its totals by name, and how many were damaged."""
    totals: dict[str, Value] = {}
    damaged = 0
    for data in metrics:
        try:
            index, value, instances = read_metric(data)
        except DamagedMessageError:
            damaged += 1
            continue
        if index is None or index >= len(strings):
            damaged += 1
            continue
        name = strings[index]
        totals[name] = value
        if value is not None or not instances:
            rows.add(kernel_id, name, None, value)
        rows.add_instances(kernel_id, name, instances)
    for name, value in list_renamed(totals).items():
        totals[name] = value
        rows.add(kernel_id, name, None, value)
    return totals, damaged


def read_metric(data: bytes) -> tuple[int | None, Value, list[tuple[Value, Value]]]:
    """A metric: index of its name, its value, and (instance, value) pairs."""
    metric = parse_message(_METRIC, data)
    return (
        metric.NameId if metric.HasField("NameId") else None,
        _value(metric.Value),
        [(_value(i.CorrelationId), _value(i.Value)) for i in metric.Instances],
    )


def _value(message: Any) -> Value:
    """The number or text that a value holds, or None. Most are one integer: that is asked first."""
    number: Value = message.Uint64Value or message.Uint32Value
    if number:
        return number
    for field in _NUMBERS:
        if message.HasField(field):
            found: Value = getattr(message, field)
            return found
    return decode_text(message.StringValue) if message.HasField("StringValue") else None
