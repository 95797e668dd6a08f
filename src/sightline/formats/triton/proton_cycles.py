"""Triton's intra-kernel profiler: regions of a kernel by block and warp, in clock cycles.

Format: triton-lang/triton, third_party/proton/dialect (and its forerunner in tritonbench): Chrome's
events, `pid` a thread block, `tid` a warp of it, times in cycles of that block's multiprocessor
("0.001ms = 1 cycle"). Each block begins at its own 0, so that nothing can be laid on one timeline:
what a region takes of its warps' cycles is all that is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import StackTrie
from sightline.errors import DamagedError
from sightline.formats._regions import list_regions
from sightline.formats._stacks import finish_import, note_bad_lines, read_text

IMPORTER = Importer(
    name="proton_cycles",
    label="Triton Proton regions, in cycles (JSON)",
    strong=(rb'\A\s*\{\s*"traceEvents"\s*:.{0,2000}?"Note"\s*:\s*"[\d.]+\s*ms = 1 cycle"',),
    weak=(),
    looks_like='"traceEvents" of thread blocks and warps, with the note "0.001ms = 1 cycle"',
    suffixes=(".json",),
    version=2,
    source="https://github.com/triton-lang/triton/tree/main/third_party/proton",
)

_MOST_CYCLES = 2**53  # up to here numbers of JSON are whole


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the cycles of all regions. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    try:
        document = json.loads(read_text(source, quality))
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why="its JSON is damaged or cut off"
        ) from error
    listed = document.get("traceEvents") if isinstance(document, dict) else None
    events = [e for e in listed if _is_region(e)] if isinstance(listed, list) else []
    quality += note_bad_lines(len(listed or ()) - len(events), "region of a warp")
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = [
        (trie.add(path), "cycles", cycles, "exact")
        for path, cycles in list_regions(_list_spans(events))
    ]
    text = (
        "times are clock cycles of one multiprocessor each, from each block's own start: what a "
        "region takes of its warps is known, how long the kernel took is not"
    )
    quality.append(Quality("cycles_only", "info", text))
    return finish_import(source, trie, weights, quality, "Triton Proton")


def _is_region(event: Any) -> bool:
    if not isinstance(event, dict) or event.get("ph") != "X":
        return False
    times = (event.get("ts"), event.get("dur"))
    return isinstance(event.get("name"), str) and all(
        isinstance(t, int | float) and not isinstance(t, bool) and 0 <= t < _MOST_CYCLES
        for t in times
    )


def _list_spans(events: list[dict[str, Any]]) -> Iterator[tuple[Any, float, float, str]]:
    for event in events:
        lane = (str(event.get("pid")), str(event.get("tid")))
        yield lane, float(event["ts"]), float(event["ts"] + event["dur"]), event["name"]
