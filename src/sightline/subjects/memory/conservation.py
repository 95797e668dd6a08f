"""Whether the memory of a recording adds up: what is allocated lies in what the driver gave.

A history that begins late, is cut or lost events can say that more is allocated than there is, or
less than nothing. Peaks and shares are then off, and every view of them has to say so.
"""

from __future__ import annotations

from typing import Any

from sightline.core.model.declare import Quality
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several

KIND = "memory_does_not_add_up"


def note_broken_memory(run: Run) -> Quality | None:
    """What does not add up, and where; None where all does, or nothing was recorded."""
    if not run.rows("memory_events"):
        return None
    broken = [said for row in run.ask("memory_peak").to_dicts() if (said := _find_fault(row))]
    if not broken:
        return None
    more = f", and {format_several(len(broken) - 1, 'more memory', 'more memories')}" * (
        len(broken) > 1
    )
    text = (
        f"the memory does not add up: {broken[0]}{more}; events are missing, so peaks and shares "
        "cannot be trusted"
    )
    remedy = "Record the history from the program's start, with more entries (max_entries)."
    return Quality(KIND, "error", text, None, remedy)


def _find_fault(row: dict[str, Any]) -> str | None:
    who = "the host" if row["device_id"] is None else f"GPU {row['device_id']}"
    allocated, given = row["allocated_bytes"], row["most_reserved_bytes"]
    if allocated < 0:
        return f"{who} has {format_bytes(-allocated)} less than nothing allocated"
    if given and allocated > given:
        return f"{who} has {format_bytes(allocated)} allocated of {format_bytes(given)} reserved"
    if row["untold_bytes"] is not None and row["untold_bytes"] < 0:
        over = format_bytes(-row["untold_bytes"])
        return f"{who} has blocks of {over} more than is allocated at its peak"
    return None
