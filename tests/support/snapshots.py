"""PyTorch memory snapshots of a few events, as torch.cuda.memory._dump_snapshot writes them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import sightline as sl
from sightline.core.model.run import Run

Entry = dict[str, Any]


def frames(*places: str) -> list[Entry]:
    """A stack of 'file.py:line:function', innermost first."""
    found = []
    for place in places:
        file, line, name = place.split(":", 2)
        found.append({"name": name, "filename": file, "line": int(line)})
    return found


def entry(action: str, addr: int, size: int, time_us: int, stack: Any = (), **more: Any) -> Entry:
    """One event."""
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": list(stack),
        **more,
    }


def alloc(addr: int, size: int, time_us: int, stack: Any = (), **more: Any) -> Entry:
    return entry("alloc", addr, size, time_us, stack, **more)


def free(addr: int, size: int, time_us: int, stack: Any = ()) -> list[Entry]:
    """Asked for and done at once, as on one stream."""
    done = ("free_requested", "free_completed")
    return [entry(action, addr, size, time_us, stack) for action in done]


def segment(address: int, *blocks: tuple[int, str] | tuple[int, str, Any], **more: Any) -> Entry:
    """A segment of blocks (size, state, frames), one after the other; "inactive" ones are free."""
    made: list[Entry] = []
    at = address
    for size, state, *stack in blocks:
        made.append(
            {
                "address": at,
                "size": size,
                "requested_size": size,
                "state": state,
                "frames": list(stack[0]) if stack else [],
            }
        )
        at += size
    used = [b["size"] for b in made if b["state"] == "active_allocated"]
    return {
        "device": 0,
        "address": address,
        "total_size": at - address,
        "allocated_size": sum(used),
        "active_size": sum(used),
        "requested_size": sum(used),
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": made,
        **more,
    }


def snapshot(events: list[Entry], segments: list[Entry], **more: Any) -> dict[str, Any]:
    return {
        "segments": segments,
        "device_traces": [events],
        "allocator_settings": {"expandable_segments": False, "garbage_collection_threshold": 0.5},
        "external_annotations": [],
        **more,
    }


def opened(folder: Path, document: Any, protocol: int = 4) -> Run:
    """The run of a snapshot."""
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(document, protocol))
    return sl.open(str(path))
