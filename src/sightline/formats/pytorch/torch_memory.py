"""The history of PyTorch's GPU memory, as sl.memory_history() keeps it: allocations and frees.

PyTorch's own snapshots are pickles: torch_snapshot reads them.
Entries: torch.cuda.memory._snapshot (docs.pytorch.org, "Understanding CUDA Memory Usage").
"""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie, note_shortened
from sightline.core.units import INT64_MAX, wrap_address
from sightline.errors import DamagedError
from sightline.formats._stacks import read_text
from sightline.formats._text_damage import note_misspelt_keys

IMPORTER = Importer(
    name="torch_memory",
    label="PyTorch memory history",
    strong=(rb'^\{"format": ?"sightline-torch-memory"',),
    weak=(),
    looks_like='JSON that starts with {"format": "sightline-torch-memory"',
    suffixes=(".json", ".json.gz"),
    version=5,
    source="https://docs.pytorch.org/docs/stable/torch_cuda_memory.html",
)

# What becomes of a block; requests to free and segments of the driver are other things.
_ACTIONS = {"alloc": "alloc", "free_completed": "free"}
_KEYS = frozenset(("action", "addr", "size", "stream", "time_us", "frames", "filename", "line"))
_COLUMNS = ("time_ns", "device_id", "address", "bytes", "stream_id", "stack_id")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all entries of all devices. Raises DamagedError where the file is not whole."""
    quality: list[Quality] = []
    try:
        document = json.loads(read_text(source, quality))
        traces = document["device_traces"]
        if not isinstance(traces, list):
            raise TypeError("'device_traces' is not a list")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not a complete memory history ({error!r})"
        ) from error
    quality += note_misspelt_keys(traces, _KEYS)
    rows: list[dict[str, Any]] = []
    trie = StackTrie()
    bad = 0
    for device, entries in enumerate(traces):
        for entry in entries if isinstance(entries, list) else ():
            row = _row(entry, device, trie)
            if row is None:
                bad += 1
            elif row["action"] is not None:
                rows.append(row)
    if bad:
        quality.append(Quality("damaged_entries", "warning", "entries could not be read", bad))
    schema = {**dict.fromkeys(_COLUMNS, pl.Int64), "action": pl.String}
    frame = pl.DataFrame(rows, schema=schema).with_columns(
        pid=pl.lit(_int(document.get("pid")), pl.Int64), memory_kind=pl.lit("device")
    )
    recording = Recording(tool="PyTorch memory history", clock_offset_ns=0, has_stacks=True)
    tables = {**trie.tables(), "memory_events": frame}
    return Imported(tables, recording, [*quality, *note_shortened(trie)])


def _row(entry: Any, device: int, trie: StackTrie) -> dict[str, Any] | None:
    """An entry as a row; its action is None where it is neither an allocation nor a free."""
    if not isinstance(entry, dict):
        return None
    at, size, address = _int(entry.get("time_us")), _int(entry.get("size")), entry.get("addr")
    if at is None or size is None or size < 0 or at > INT64_MAX // 1000:
        return None
    return {
        "time_ns": at * 1000,
        "device_id": device,
        "address": wrap_address(address) if type(address) is int else None,
        "bytes": size,
        "stream_id": _int(entry.get("stream")),
        "action": _ACTIONS.get(str(entry.get("action"))),
        "stack_id": trie.add(_read_frames(entry.get("frames"))),
    }


def _read_frames(frames: Any) -> list[Frame]:
    """The frames of an entry, the outermost first."""
    found = []
    for frame in reversed(frames) if isinstance(frames, list) else ():
        if isinstance(frame, dict):
            file = str(frame.get("filename") or "")
            layer = "python" if re.search(r"\.pyx?$|^<.*>$", file) else "native"
            line = _int(frame.get("line"))
            name = str(frame.get("name") or "")
            found.append(Frame(layer, name, file or None, line if line and line > 0 else None))
    return found


def _int(value: Any) -> int | None:
    return value if type(value) is int and -INT64_MAX <= value <= INT64_MAX else None
