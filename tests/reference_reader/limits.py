"""What limits the conclusions that a trace allows: each kind, with how often it was met."""

from __future__ import annotations

import polars as pl

from reference_reader.rows import Rows

Limit = tuple[str, int | None]


def limits(
    rows: Rows, tables: dict[str, pl.DataFrame], ambiguous: int, nowhere: int
) -> list[Limit]:
    """The kinds that show in the events. None: it is so, and there is nothing to count."""
    device, host = (tables[name].to_dicts() for name in ("device_ops", "host_ops"))
    steps = [op["name"] for op in host if op["layer"] == "step"]
    in_python = any(op["layer"] == "python" or op["stack"] is not None for op in host)
    whole_us = all(op["start_ns"] % 1000 == 0 == op["end_ns"] % 1000 for op in device)
    counted = {
        "not_events": rows.not_events,
        "negative_durations": rows.negative_durations,
        "unmatched_begins": rows.unmatched_begins,
        "unknown_categories": sum(rows.unknown_categories.values()),
        "without_device": nowhere,
        "unmatched_launches": sum(op["launch_id"] is None for op in device),
        "ambiguous_launches": ambiguous,
        "zero_durations": sum(op["start_ns"] == op["end_ns"] for op in device),
    }
    so = {
        "no_device_ops": not device,
        "no_host_ops": not host,
        "microsecond_clock": whole_us and len(device) >= 10,
        "no_python_stacks": bool(host) and not in_python,
        "no_steps": bool(host) and not steps,
        "one_step": len(set(steps)) == 1,
    }
    return [(kind, n) for kind, n in counted.items() if n] + [(k, None) for k in so if so[k]]
