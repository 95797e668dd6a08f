"""The folder that `sightline watch` keeps: what the GPUs and the host did, for weeks.

    NAME/
      watch.json                                     format, period, limits
      watch.log                                      what nobody was there to be told
      live/<start>.samples                           what is written now, and what was last
      gpus/date=2026-11-23/raw-<start>.parquet       sealed: a column per metric, a row per reading
      gpus/date=2026-11-16/10s-2026-11-16.parquet    thinned: means, with _min and _max
      instances/, processes/, host/, links/          the same of MIG instances, processes, ...
      events/date=.../raw-<start>.parquet            XIDs, lost devices, violated policies

A live file is a sequence of records (see `HEAD`), each with its length and its checksum, so that
a writer that is killed, or whose disk is full, loses the record it was at. Texts are JSON; rounds
are numbers: the wall clock's and a steady clock's time in ns, then for each entity its number and
a float64 for each column of its table, NaN where there is no reading.

A day's thinned file stands for those that it was made of (their names are beside it): where they
are there, thinning was interrupted before it removed them, and they are not read. Dates are UTC's.
No large library is imported: what writes is small.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sightline.core.text import replace_surrogates

FORMAT, VERSION = "sightline-watch", 1
FACTS = "watch.json"
LOG = "watch.log"
LIVE, LIVE_ENDING = "live", ".samples"
KINDS = ("gpus", "instances", "processes", "host", "links")
EVENTS = "events"
RAW = "raw"
MADE_OF = ".of"  # behind a thinned file's name: the names of the files that it was made of

HEAD = struct.Struct("<IIB")  # payload's length, its CRC-32, kind
TABLE, ENTITY, ROUND, EVENT, DEVICES = range(1, 6)
ROUND_HEAD = struct.Struct("<qq")  # wall clock, steady clock, ns
ENTITY_HEAD = struct.Struct("<I")
MOST_BYTES = 16 << 20  # of one record; thousands of processes are 1 MB


def is_history(path: Path) -> bool:
    """Whether a folder was left by `sightline watch`."""
    facts = path / FACTS
    try:
        return FORMAT in facts.read_text(encoding="utf-8", errors="replace")[:4096]
    except OSError:
        return False


def write_document(path: Path, document: Any) -> None:
    """Write a JSON file of a history, whole or not at all. Raises OSError."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_text(json.dumps(document, indent=1) + "\n")
    unfinished.replace(path)


def pack_record(kind: int, payload: bytes) -> bytes:
    """A record of a live file."""
    return HEAD.pack(len(payload), zlib.crc32(payload), kind) + payload


def pack_json(kind: int, value: Any) -> bytes:
    """A record whose payload is JSON."""
    return pack_record(kind, json.dumps(value, separators=(",", ":")).encode())


class Table(NamedTuple):
    """Columns of the readings of a kind, until a reading has another one: then there is a wider."""

    number: int
    kind: str
    columns: tuple[str, ...]


@dataclass
class LiveRound:
    """One round: values by entity's number, as bytes of float64."""

    wall_ns: int
    steady_ns: int
    rows: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass
class LiveFile:
    """What a live file holds. `lost` is the number of bytes after the last whole record."""

    tables: dict[int, Table] = field(default_factory=dict)
    entities: dict[int, tuple[int, int | None, str | None]] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[LiveRound] = field(default_factory=list)
    lost: int = 0


def read_live(path: Path) -> LiveFile:
    """All whole records of a live file; it may be written meanwhile. Raises OSError."""
    data = path.read_bytes()
    live = LiveFile()
    at = 0
    for kind, payload, end in _iterate_records(data):
        try:
            _take(live, kind, payload)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error):
            break  # with a right checksum: written by something else
        at = end
    live.lost = len(data) - at
    return live


def _iterate_records(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    at = 0
    while at + HEAD.size <= len(data):
        length, checksum, kind = HEAD.unpack_from(data, at)
        begin, end = at + HEAD.size, at + HEAD.size + length
        if length > MOST_BYTES or end > len(data):
            return
        payload = data[begin:end]
        if zlib.crc32(payload) != checksum:
            return
        yield kind, payload, end
        at = end


def _take(live: LiveFile, kind: int, payload: bytes) -> None:
    if kind == ROUND:
        live.rounds.append(_read_round(live, payload))
        return
    told = json.loads(payload)
    if kind == TABLE:
        columns = tuple(replace_surrogates(str(column)) for column in list(told["columns"]))
        table = Table(int(told["table"]), str(told["kind"]), columns)
        is_new = table.number not in live.tables  # what older rows are of does not change
        if table.kind not in KINDS or len(set(columns)) < len(columns) or not is_new:
            raise ValueError(table.kind)
        live.tables[table.number] = table
    elif kind == ENTITY:
        device = told["device_id"]
        source = told["source"]
        if int(told["table"]) not in live.tables or int(told["entity"]) in live.entities:
            raise ValueError("an entity of no table, or a second one of its number")
        live.entities[int(told["entity"])] = (
            int(told["table"]),
            None if device is None else _check_number(device),
            None if source is None else replace_surrogates(str(source)),
        )
    elif kind == EVENT:
        device = told.get("device_id")
        times = {"time_ns": _check_number(told["time_ns"])}
        who = {"device_id": None if device is None else _check_number(device)}
        names = ("event", "kind", "source", "text")
        texts = {k: replace_surrogates(str(told.get(k) or "")) or None for k in names}
        live.events.append(times | who | texts)
    elif kind == DEVICES:
        live.devices = [_check_device(device) for device in told]


def _check_number(told: Any) -> int:
    number = int(told)
    if not -(2**63) <= number < 2**63:
        raise ValueError(told)
    return number


def _check_device(told: Any) -> dict[str, Any]:
    texts = ("vendor", "name", "uuid", "pci_bus_id", "driver")
    return {"device_id": _check_number(told["device_id"])} | {
        k: replace_surrogates(str(told.get(k) or "")) for k in texts
    }


def read_devices(folder: Path, lives: list[LiveFile]) -> list[dict[str, Any]]:
    """The devices as they were listed last: device_id, vendor, name, uuid, pci_bus_id, driver."""
    listed: list[dict[str, Any]] = []
    try:
        text = (folder / "devices.json").read_text(encoding="utf-8", errors="replace")
        listed = [_check_device(told) for told in json.loads(text)]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # none was sealed yet, or the file is damaged: the values are there without names
    for live in lives:
        listed = live.devices or listed
    return listed


def _read_round(live: LiveFile, payload: bytes) -> LiveRound:
    found = LiveRound(*ROUND_HEAD.unpack_from(payload))
    at = ROUND_HEAD.size
    while at < len(payload):
        (number,) = ENTITY_HEAD.unpack_from(payload, at)
        at += ENTITY_HEAD.size
        end = at + 8 * len(live.tables[live.entities[number][0]].columns)
        if end > len(payload):
            raise ValueError("a row that is cut")
        found.rows.append((number, payload[at:end]))
        at = end
    return found


def list_sealed(folder: Path, kind: str) -> list[Path]:
    """The Parquet files of a kind, by date; of a thinned day not those that it was made of."""
    days = sorted((folder / kind).glob("date=*"))
    return [file for day in days for file in list_sealed_of_day(day)]


def list_sealed_of_day(day: Path) -> list[Path]:
    """The Parquet files of a kind and day: the thinned one, and what came after it was made."""
    files = sorted(day.glob("*.parquet"))
    widest = max(files, key=lambda file: read_seconds(file.name), default=None)
    if widest is None or not read_seconds(widest.name):
        return files
    try:
        made_of = set((day / (widest.name + MADE_OF)).read_text().split("\n"))
    except OSError:
        made_of = set()
    return [file for file in files if file == widest or file.name not in made_of]


def read_seconds(name: str) -> int:
    """The interval that a file's name says, 0 of one that is not thinned."""
    digits = name.partition("s-")[0]
    return int(digits) if digits.isdecimal() else 0


def list_live(folder: Path) -> list[Path]:
    """The live files, in order of their start."""
    return sorted((folder / LIVE).glob(f"*{LIVE_ENDING}"))
