"""What an HTML page of sightline holds, without a browser: its data, and its packed columns.

The columns and events are read as web/src/report/columns.ts and timeline/unpack.ts read them, from
their description alone: plain loops over plain numbers.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

from sightline.core.page_text import decode_text

# The places of a page that hold data, without the rest of it.
TEMPLATE = (
    '<title>sightline</title><!--FIRST--><script id="page-data">/*DATA*/</script>'
    '<script id="page-columns">/*COLUMNS*/</script>'
)


def read_part(page: bytes, name: str) -> bytes:
    """The bytes of an element: page-data (deflated) or page-columns."""
    found = re.search(f'<script[^>]* id="{name}">([^<]*)</script>'.encode(), page)
    assert found is not None, name
    return decode_text(found[1].decode())


def read_data(page: bytes) -> dict[str, Any]:
    """The page's data."""
    found: dict[str, Any] = json.loads(zlib.decompress(read_part(page, "page-data")))
    return found


def read_column(body: bytes, entry: dict[str, Any] | list[int]) -> list[int]:
    """The numbers of an entry, which may be the numbers themselves."""
    if isinstance(entry, list):
        return entry
    data = zlib.decompress(body[entry["at"] : entry["at"] + entry["bytes"]])
    n, width = entry["n"], entry["width"]
    assert len(data) == n * width
    values = [sum(data[p * n + i] << 8 * p for p in range(width)) for i in range(n)]
    if entry.get("signed"):
        values = [-(v + 1) // 2 if v % 2 else v // 2 for v in values]
    values = [v * entry.get("unit", 1) for v in values]
    if entry.get("delta"):
        for i in range(1, n):
            values[i] += values[i - 1]
    return values


def read_events(block: dict[str, Any], body: bytes) -> list[dict[str, int]]:
    """Every event of a timeline's block: lane, start, end, name, link."""
    columns = {name: read_column(body, entry) for name, entry in block["columns"].items()}
    lanes, at = [], 0
    for n in block["lanes"]["n"]:
        lanes.append(range(at, at + n))
        at += n
    lane_of = [lane for lane, rows in enumerate(lanes) for _ in rows]
    link, up = columns["link"], iter(columns["up"])
    parent = [-1] * at
    for lane, rows in enumerate(lanes):
        if block["bases"][lane] == 1:
            own = lanes[lane - 1].start - 1
            for i in rows:
                own += next(up)
                parent[i] = own if own >= lanes[lane - 1].start else -1
    is_stream = [block["tracks"][t]["kind"] == "stream" for t in block["lanes"]["track"]]
    name = _read_names(columns, parent, [is_stream[lane] for lane in lane_of], link)
    order = sorted(range(at), key=lambda i: name[i])
    gap, tail = (
        {i: values[k] for k, i in enumerate(order)} for values in (columns["gap"], columns["tail"])
    )
    children: dict[int, list[int]] = {}
    for i, own in enumerate(parent):
        children.setdefault(own, []).append(i)
    start, end = [0] * at, [0] * at

    def settle(i: int) -> None:
        lane = lanes[lane_of[i]]
        before = end[i - 1] if i > lane.start else 0
        call, base = link[i] - 1, block["bases"][lane_of[i]]
        seen = before
        if parent[i] >= 0:
            seen = max(before, start[parent[i]])
        elif base == 2 and call >= 0:
            seen = start[call]
        elif base == 3 and call >= 0:
            seen = max(before, end[call])
        start[i] = seen + gap[i]
        last = start[i]
        for child in children.get(i, ()):
            settle(child)
            last = end[child]
        end[i] = last + tail[i]

    for first in (True, False):
        for lane in reversed(range(len(lanes))):
            if (block["bases"][lane] < 2) == first:
                for i in lanes[lane]:
                    if parent[i] < 0:
                        settle(i)
    return [
        {"lane": lane_of[i], "start": start[i], "end": end[i], "name": name[i], "link": link[i]}
        for i in range(at)
    ]


def _read_names(
    columns: dict[str, list[int]], parent: list[int], streams: list[bool], link: list[int]
) -> list[int]:
    if "known" not in columns:
        return columns["name"]
    lists, names = [], iter(columns["names"])
    for size in columns["known"]:
        lists.append([next(names) for _ in range(size)])
    found = [0] * len(parent)
    for is_stream in (False, True):
        for i, rank in enumerate(columns["name"]):
            if streams[i] != is_stream:
                continue
            context = parent[i]
            if is_stream and link[i]:
                context = link[i] - 1 if parent[link[i] - 1] < 0 else parent[link[i] - 1]
            found[i] = lists[0 if context < 0 else found[context] + 1][rank]
    return found
