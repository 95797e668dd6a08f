"""XPlane profiles written by Google's protobuf library, apart from the reader that is tested."""

from __future__ import annotations

from typing import Any

from sightline.core.protobuf import declare_messages

MESSAGES = declare_messages(
    """
XSpace: 1 planes []XPlane
XPlane: 1 id int, 2 name text, 3 lines []XLine, 4 event_metadata []Entry, 5 stat_metadata []Entry,
    6 stats []XStat
Entry: 1 key int, 2 value Named
Named: 1 id int, 2 name text, 4 display_name text, 5 stats []XStat
XLine: 1 id int, 2 name text, 3 timestamp_ns int, 4 events []XEvent
XEvent: 1 metadata_id int, 2 offset_ps int, 3 duration_ps int, 4 stats []XStat
XStat: 1 metadata_id int, 3 uint64_value uint, 5 str_value text, 6 bytes_value bytes,
    7 ref_value uint
"""
)
_CORRELATION, _COPY, _VENDOR = 1, 2, 3
Slice = tuple[int, int, str, int, str | None]  # start, end in ns, name, correlation, copy details


def write_planes(calls: list[Slice], work: list[Slice], *, tid: int, stream: int) -> bytes:
    """A GPU of AMD with this work on one stream, and a thread with these calls."""
    names = list(dict.fromkeys(name for _, _, name, *_ in (*calls, *work)))
    named = [{"key": i, "value": {"id": i, "name": n}} for i, n in enumerate(names, 1)]
    stats = (
        (_CORRELATION, "correlation_id"),
        (_COPY, "memcpy_details"),
        (_VENDOR, "device_vendor"),
    )
    keys = [{"key": i, "value": {"id": i, "name": n}} for i, n in stats]

    def list_events(slices: list[Slice]) -> list[dict[str, Any]]:
        return [
            {
                "metadata_id": 1 + names.index(name),
                "offset_ps": 1000 * start,
                "duration_ps": 1000 * (end - start),
                "stats": [
                    {"metadata_id": _CORRELATION, "uint64_value": number},
                    *([{"metadata_id": _COPY, "str_value": details}] if details else []),
                ],
            }
            for start, end, name, number, details in slices
        ]

    space = MESSAGES["XSpace"]()
    shared = {"event_metadata": named, "stat_metadata": keys}
    device = {"id": stream, "name": f"Stream #{stream}(Kernel)", "events": list_events(work)}
    space.planes.add(
        id=1,
        name="/device:GPU:0",
        lines=[device],
        stats=[{"metadata_id": _VENDOR, "str_value": "AMD"}],
        **shared,
    )
    thread = {"id": tid, "name": "python", "events": list_events(calls)}
    space.planes.add(id=2, name="/host:CPU", lines=[thread], **shared)
    data: bytes = space.SerializeToString()
    return data
