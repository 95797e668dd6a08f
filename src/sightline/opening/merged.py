"""Traces of several ranks in one file: taken apart again, as each rank's numbers are its own.

SGLang's merge_profiles (python/sglang/srt/utils/profile_merger.py) and tools like it put a label
before every process: `[TP01-DP00-PP00-EP00] 4711`. Devices, streams, processes and correlation ids
of two ranks are the same numbers: read as one, kernels are tied to another rank's launches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sightline.core.model.cache_folder import open_cache_folder
from sightline.core.model.source import Source
from sightline.opening.scratch import make_scratch, remove_scratch

# A label that holds a number, before a process: that of its rank.
_LABELLED = rb'"pid"\s*:\s*"\[([^\]"\\]{0,80}\d[^\]"\\]{0,80})\] [^"]{1,80}"'
_LABEL = re.compile(r"^\[([^\]]*\d[^\]]*)\] (.+)$")
_MOST_RANKS = 4096


def is_merged(source: Source) -> bool:
    """Whether a file is a trace whose processes are labelled with ranks."""
    return bool(re.search(_LABELLED, source.head()))


@contextmanager
def split_ranks(source: Source) -> Iterator[list[tuple[str, Path]]]:
    """A trace for each rank, with its label, for as long as the context lasts; of one rank none.

    Raises ValueError where the file is not whole.
    """
    with source.open() as stream:
        content = json.loads(stream.read(), strict=False)
    events = content["traceEvents"] if isinstance(content, dict) else content
    header = content if isinstance(content, dict) else {}
    ranks: dict[str, list[Any]] = {}
    others: list[Any] = []
    for event in events:
        found = _LABEL.match(event["pid"]) if _has_text_pid(event) else None
        if found is None:
            others.append(event)
            continue
        pid = int(found[2]) if found[2].isdecimal() else found[2]
        ranks.setdefault(found[1], []).append({**event, "pid": pid})
    if not 1 < len(ranks) <= _MOST_RANKS:
        yield []
        return
    folder = make_scratch(open_cache_folder())
    try:
        yield list(_write_parts(folder, ranks, others, header))
    finally:
        remove_scratch(folder)


def _write_parts(
    folder: Path, ranks: dict[str, list[Any]], others: list[Any], header: dict[str, Any]
) -> Iterator[tuple[str, Path]]:
    info = header.get("distributedInfo")
    size = info.get("world_size") if isinstance(info, dict) else None
    whole = {key: value for key, value in header.items() if key != "traceEvents"}
    for number, label in enumerate(sorted(ranks, key=_list_numbers)):
        own = {**(info if isinstance(info, dict) else {}), "rank": number}
        own["world_size"] = size if isinstance(size, int) and size >= len(ranks) else len(ranks)
        events = ranks[label] + (others if number == 0 else [])
        path = folder / f"{number}.json"
        content = {**whole, "distributedInfo": own, "traceEvents": events}
        path.write_text(json.dumps(content), encoding="utf-8")
        yield label, path


def _has_text_pid(event: Any) -> bool:
    return isinstance(event, dict) and isinstance(event.get("pid"), str)


def _list_numbers(label: str) -> tuple[list[int], str]:
    """Ranks in the order of their numbers: outer dimensions of parallelism first, then tensors'."""
    named = dict(re.findall(r"([A-Za-z]*)(\d+)", label))
    outer = [int(named.pop(name, 0)) for name in ("PP", "DP")]
    return [*outer, *(int(number) for number in named.values())], label
