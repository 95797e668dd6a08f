"""The breakdown of a trace, computed the plain way from its JSON: the second opinion.

Shares no code with the tool. The rules are those of section 5 of docs/architecture.md:

* start = ts * 1000 and duration = dur * 1000, each rounded half to even; end = start + duration
* a copy or fill is one by its category; a kernel is communication by its name, or because it
  carries a collective's metadata; all other kernels are compute
* overlap goes to compute, then to communication, then to copies
* the window of a device goes from its first operation's start to its last one's end
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

from sightline.timeline.communication_names import PATTERN

KERNEL, COPY = (
    {"kernel", "concurrent_kernel", "mtia_ccp_events"},
    {
        "gpu_memcpy",
        "gpu_memset",
        "memcpy",
        "memset",
    },
)
# What communicates is declared once: the names are data, with their sources, and no code of ours.
COMMUNICATION = re.compile(PATTERN)
CLASSES = ("compute", "exposed_comm", "exposed_copy")

Operation = tuple[int, int, str]  # start, end, class
Breakdown = dict[str, int]


def parse(path: Path) -> Any:
    """The JSON of a file; numbers with a decimal point stay text."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data.decode("utf-8", "replace"), parse_float=str, strict=False)


def events_of(document: Any) -> list[dict[str, Any]]:
    found = document["traceEvents"] if isinstance(document, dict) else document
    return [e for e in found if isinstance(e, dict)]


def ns(microseconds: int | str) -> int:
    return int((Decimal(microseconds) * 1000).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def class_of(event: dict[str, Any]) -> str | None:
    category = str(event.get("cat", "")).lower()
    if category in COPY:
        return "exposed_copy"
    if category not in KERNEL:
        return None
    named = COMMUNICATION.search(event["name"]) is not None
    return "exposed_comm" if named or "Collective name" in event.get("args", {}) else "compute"


def operations(document: Any) -> dict[int, list[Operation]]:
    """Device operations of each device."""
    found: dict[int, list[Operation]] = defaultdict(list)
    for event in events_of(document):
        kind = class_of(event) if event.get("ph") == "X" else None
        if kind is None:
            continue
        start, length = ns(event["ts"]), ns(event.get("dur", 0))
        if length >= 0:
            device = event.get("args", {}).get("device", event["pid"])
            found[int(device)].append((start, start + length, kind))
    return dict(found)


def breakdown(ops: list[Operation]) -> Breakdown:
    """Walk through all moments at which something starts or ends, and count what runs."""
    changes: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(CLASSES, 0))
    for start, end, kind in ops:
        changes[start][kind] += 1
        changes[end][kind] -= 1
    spent = dict.fromkeys([*CLASSES, "idle"], 0)
    running = dict.fromkeys(CLASSES, 0)
    moments = sorted(changes)
    for here, there in itertools.pairwise(moments):
        for kind in CLASSES:
            running[kind] += changes[here][kind]
        owner = next((kind for kind in CLASSES if running[kind]), "idle")
        spent[owner] += there - here
    return {
        "window_ns": moments[-1] - moments[0],
        **{f"{owner}_ns": length for owner, length in spent.items()},
    }


def rank_of(document: Any, path: Path) -> int:
    """The rank that the trace names, else the one in the name of its file or folder, else 0."""
    info = document.get("distributedInfo") if isinstance(document, dict) else None
    if isinstance(info, dict) and isinstance(info.get("rank"), int):
        return int(info["rank"])
    for name in (path.name, path.parent.name):
        found = re.search(r"(?:^|[^a-z])rank[-_.]?(\d+)", name, re.IGNORECASE)
        if found:
            return int(found[1])
    return 0


def breakdowns(path: Path) -> dict[tuple[int, int], Breakdown]:
    """The breakdown of each (rank, device) of a file."""
    document = parse(path)
    rank = rank_of(document, path)
    return {(rank, device): breakdown(ops) for device, ops in operations(document).items()}
