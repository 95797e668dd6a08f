"""Where CTF traces lie: folders with a file `metadata`, which sessions, domains and hosts nest."""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

METADATA = "metadata"
# A trace begins with TSDL's signature, with a packet of it, or with a fragment of CTF 2
# (CTF 1.8.3, 7; CTF2-SPEC-2.0, 5). Some writers leave the signature out.
_BEGINS = re.compile(
    rb'\A(?:\x75\xd1\x1d\x57|\x57\x1d\xd1\x75|\s*/\*\s*CTF\s|[\x1e\s]*\{.{0,4000}"preamble")'
    rb"|(?:^|[;}])\s*trace\s*\{[^}]{0,400}\b(?:major|minor|byte_order)\s*=",
    re.DOTALL | re.MULTILINE,
)
_HOST = re.compile(rb'\bhostname"?\s*[=:]\s*"((?:[^"\\]|\\.){0,255})"')
# Of what sightline writes (views/exports/ctf2.py): each rank is a recording.
_RANK = re.compile(rb'\brank"?\s*[=:]\s*(\d{1,9})')
_HEAD = 64 << 10
_MOST_FOLDERS = 100_000
_HIDDEN_PARTS = ("index",)
# An index of LTTng's (lttng-tools, src/common/index/ctf-index.h): magic, version, and how long an
# entry is; an entry is a packet, from its offset and its size in bits on. All big-endian.
_INDEX = struct.Struct(">IIII")
_INDEX_MAGIC = 0xC1F1DCC1
_ENTRY = struct.Struct(">QQ")


@dataclass(frozen=True)
class Trace:
    """A folder with metadata, and its streams' files."""

    folder: Path
    streams: tuple[Path, ...]


def is_trace(folder: Path) -> bool:
    """Whether a folder is a trace: its file `metadata` begins as one of CTF's does."""
    return _BEGINS.search(_read_head(folder / METADATA)) is not None


def find_traces(folder: Path) -> list[Trace]:
    """The traces in a folder, itself or below it, in order of their paths."""
    return [Trace(place, _list_streams(place)) for place in _walk(folder) if is_trace(place)]


def find_recordings(folder: Path) -> list[Path]:
    """The folders that are one recording each: all traces of one host, or rank where one is named.

    Kernel and user space of a session, and the chunks of one that was rotated, are read as one.
    Where several hosts are nested, each has its own folder, the lowest that holds all its traces.
    """
    by_host: dict[tuple[bytes, ...], list[Path]] = {}
    for place in _walk(folder):
        if is_trace(place):
            head = _read_head(place / METADATA)
            found = [pattern.search(head) for pattern in (_HOST, _RANK)]
            key = tuple(each[1] if each else b"" for each in found)
            by_host.setdefault(key, []).append(place)
    tops = [Path(os.path.commonpath(places)) for places in by_host.values()]
    if all(
        top not in (other, *other.parents) for top in tops for other in tops if top is not other
    ):
        return sorted(tops)
    return sorted(place for places in by_host.values() for place in places)


def count_indexed(stream: Path) -> int | None:
    """How many bytes of packets the index of a stream lists; None where there is no such index."""
    path = stream.parent / "index" / f"{stream.name}.idx"
    try:
        data = path.read_bytes() if path.stat().st_size < 1 << 28 else b""
    except OSError:
        return None
    if len(data) < _INDEX.size:
        return None
    magic, _, _, length = _INDEX.unpack_from(data)
    if magic != _INDEX_MAGIC or length < _ENTRY.size:
        return None
    ends = [
        offset + bits // 8
        for at in range(_INDEX.size, len(data) - length + 1, length)
        for offset, bits in [_ENTRY.unpack_from(data, at)]
    ]
    return max(ends, default=0)


def _walk(folder: Path) -> Iterator[Path]:
    """Folders that have a file `metadata`."""
    for place, folders, files in itertools.islice(os.walk(folder), _MOST_FOLDERS):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _HIDDEN_PARTS)
        if METADATA in files:
            yield Path(place)


def _list_streams(folder: Path) -> tuple[Path, ...]:
    files = (
        path
        for path in folder.iterdir()
        if path.name != METADATA
        and not path.name.startswith(".")
        and path.suffix != ".idx"
        and path.is_file()
        and path.stat().st_size > 0
    )
    return tuple(sorted(files))


def _read_head(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD)
    except OSError:
        return b""
