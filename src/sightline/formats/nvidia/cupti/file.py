"""Chunks of a recording: tables of packed rows, numbered texts, cubins, facts.

The format is native/cupti/format.h; docs/formats/cupti.md describes it. Nothing is trusted: what a
chunk says of its size is compared with what is there, and its checksum with its bytes.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.errors import DamagedError

MAGIC = b"SIGHTLINE-CUPTI\n"
VERSION = 1
_HEADER = struct.Struct("<16sIIQ")  # magic, version, process id, start in ns
_CHUNK = struct.Struct("<4sHHIIII")  # magic, kind, table, bytes, rows, checksum, sequence
_CHUNK_MAGIC = b"SLCK"
_FACTS, _TABLE, _ROWS, _TEXTS, _BLOB = range(1, 6)
_TYPES = {1: "<u1", 2: "<u2", 3: "<u4", 4: "<u8", 5: "<i4", 6: "<u4", 7: "<f8"}
_TEXT = 6
# A chunk holds what one buffer of CUPTI's held, or one cubin: the largest that are known have some
# 300 MB. More than that is damage.
_MOST_CHUNK = 1 << 30
_MOST_COLUMNS = 1000


_WORK = "start end correlation device context stream"
_CALL = "start end cbid tid correlation result"
# The columns that are asked for: what a file lacks of them is 0, or no text. Texts end with ":".
EXPECTED = {
    "kernels": f"{_WORK} grid_x grid_y grid_z block_x block_y block_z cluster_x cluster_y "
    "cluster_z registers static_shared dynamic_shared shared_executed local_per_thread local "
    "max_active_clusters launch_type graph graph_node name:",
    "copies": f"{_WORK} bytes copy_kind src_kind dst_kind graph graph_node",
    "peer_copies": f"{_WORK} src_device dst_device bytes copy_kind src_kind dst_kind "
    "graph graph_node",
    "fills": f"{_WORK} bytes value memory_kind graph graph_node",
    "graphs": f"{_WORK} graph",
    "runtime_calls": _CALL,
    "driver_calls": _CALL,
    "syncs": "start end type correlation context stream event",
    "events": "correlation context stream event",
    "overhead": "start end kind object_kind tid correlation",
    "pools": "time action type correlation device min_bytes_to_keep address bytes "
    "release_threshold used",
    "devices": "device name: memory_bandwidth memory l2 warp clock_khz sms warps_per_sm "
    "shared_per_sm registers_per_sm major minor uuid_first uuid_last",
    "contexts": "context device",
    "decompressions": f"{_WORK} operations bytes",
    "graph_host_nodes": "start end correlation context stream tid graph",
    "host_functions": "start end correlation context stream tid",
    "green_contexts": "context parent device sms",
    "call_names": "domain cbid name:",
    "clocks": "cupti realtime monotonic",
    "drops": "time records unread_bytes",
    "external": "correlation external kind",
    "windows": "start end level is_on launches records own_ns cpu_ns is_measured",
    "stall_reasons": "context reason name:",
    "samples": "time context cubin offset function_index function: correlation reason samples",
    "sample_totals": "time context device total dropped non_user hardware_full mode period_log2",
    "ranges": "start end tid end_tid kind name: domain: category: payload_type payload depth",
}


@dataclass
class Table:
    """A table's declaration and its rows as they come."""

    name: str
    dtype: np.dtype[Any]
    texts: tuple[str, ...]
    parts: list[np.ndarray[Any, Any]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(len(part) for part in self.parts)


@dataclass
class CuptiFile:
    """What a file holds, and what of it is damaged."""

    pid: int
    start_ns: int
    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    cubins: dict[int, bytes] = field(default_factory=dict)
    damaged_chunks: int = 0
    missing_chunks: int = 0
    stopped: str | None = None  # why what follows could not be read

    def frame(self, name: str) -> pl.DataFrame:
        """A table's rows with the columns of EXPECTED, numbers as int64."""
        table = self.tables.get(name)
        parts = table.parts if table is not None else []
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else None
        columns = {}
        for word in EXPECTED[name].split():
            column, is_text = word.removesuffix(":"), word.endswith(":")
            kind = pl.String if is_text else pl.Int64
            if rows is None or table is None:
                columns[column] = pl.Series([], dtype=kind)
            elif column not in (table.dtype.names or ()) or is_text != (column in table.texts):
                columns[column] = pl.repeat(
                    None if is_text else 0, len(rows), dtype=kind, eager=True
                )
            elif is_text:
                columns[column] = self._name(rows[column])
            else:
                columns[column] = _widen(rows[column])
        return pl.DataFrame(columns)

    def _name(self, numbers: np.ndarray[Any, Any]) -> pl.Series:
        """The texts of these numbers; null for 0, and for a number that no text has."""
        used, places = np.unique(numbers, return_inverse=True)
        known = pl.Series([self.texts.get(int(n)) for n in used], dtype=pl.String)
        return known.gather(places.astype(np.int64))


def _widen(values: np.ndarray[Any, Any]) -> pl.Series:
    if values.dtype.kind == "f":
        return pl.repeat(0, len(values), dtype=pl.Int64, eager=True)
    return pl.Series(values.astype(np.int64))  # above the largest int64 they wrap


def read_file(source: Source) -> CuptiFile:
    """All whole chunks of a file. Raises DamagedError where not even its header is whole."""
    with source.open() as stream:
        head, _ = read_intact(stream, _HEADER.size)
        if len(head) < _HEADER.size:
            raise DamagedError(f"cannot read {source.given}", why="it ends inside its header")
        magic, version, pid, start = _HEADER.unpack(head)
        if magic != MAGIC:
            raise DamagedError(
                f"cannot read {source.given}", why="it does not start with SIGHTLINE-CUPTI"
            )
        if version != VERSION:
            raise DamagedError(
                f"cannot read {source.given}",
                why=f"it has version {version}, this sightline reads {VERSION}",
                hint="Update sightline.",
            )
        found = CuptiFile(pid, start)
        # What unpacks to more than is ever read whole is no recording that somebody wants read.
        _read_chunks(stream, found, max(WHOLE_BYTES, source.size))
    return found


def _read_chunks(stream: BinaryIO, found: CuptiFile, limit: int) -> None:
    numbered: dict[int, Table] = {}
    at, expected = _HEADER.size, 0
    while True:
        head, damage = read_intact(stream, _CHUNK.size)
        if not head and damage is None:
            return
        if len(head) < _CHUNK.size:
            found.stopped = damage or f"it ends inside a chunk's header (byte {at})"
            return
        magic, kind, table, size, rows, checksum, sequence = _CHUNK.unpack(head)
        if magic != _CHUNK_MAGIC or size > _MOST_CHUNK:
            found.stopped = f"there is no chunk at byte {at}"
            return
        data, damage = read_intact(stream, size)
        if len(data) < size:
            found.stopped = damage or f"it ends inside the chunk at byte {at}"
            return
        at += _CHUNK.size + size
        if at > limit:
            found.stopped = f"it holds more than {limit} bytes"
            return
        if sequence > expected:
            found.missing_chunks += sequence - expected
        expected = sequence + 1
        if zlib.crc32(data) != checksum or not _take(found, numbered, kind, table, rows, data):
            found.damaged_chunks += 1


def _take(
    found: CuptiFile, numbered: dict[int, Table], kind: int, number: int, rows: int, data: bytes
) -> bool:
    """Add what a chunk holds. False where it is not what its header says."""
    if kind == _ROWS:
        table = numbered.get(number)
        if table is None or rows * table.dtype.itemsize != len(data):
            return False
        table.parts.append(np.frombuffer(data, table.dtype))
        return True
    if kind == _TABLE:
        declared = _declare(data)
        if declared is None:
            return False
        # A table of a name goes on where two declare it, if they mean the same.
        known = found.tables.setdefault(declared.name, declared)
        numbered[number] = known if known.dtype == declared.dtype else declared
        return numbered[number] is known
    if kind == _TEXTS:
        return _add_texts(found.texts, data)
    if kind == _BLOB and len(data) >= 8:
        found.cubins[int.from_bytes(data[:8], "little")] = data[8:]
        return True
    if kind == _FACTS:
        try:
            facts = json.loads(data)
        except (ValueError, RecursionError):
            return False
        if not isinstance(facts, dict):
            return False
        found.facts.update(facts)
        return True
    return True  # a kind of a newer version


def _declare(data: bytes) -> Table | None:
    """A table from its declaration: its name, and a type and a name for each column."""
    words = data.split(b"\0")
    if len(words) < 3 or len(words) > _MOST_COLUMNS or words[-1] != b"":
        return None
    names, formats, texts = [], [], []
    for word in words[1:-1]:
        if len(word) < 2 or word[0] not in _TYPES:
            return None
        name = word[1:].decode("utf-8", "replace")
        names.append(name)
        formats.append(_TYPES[word[0]])
        if word[0] == _TEXT:
            texts.append(name)
    if len(set(names)) < len(names):
        return None
    dtype = np.dtype(list(zip(names, formats, strict=True)))
    return Table(words[0].decode("utf-8", "replace"), dtype, tuple(texts))


def _add_texts(texts: dict[int, str], data: bytes) -> bool:
    at = 0
    while at + 8 <= len(data):
        number, size = struct.unpack_from("<II", data, at)
        if at + 8 + size > len(data):
            return False
        texts[number] = data[at + 8 : at + 8 + size].decode("utf-8", "replace")
        at += 8 + size
    return at == len(data)
