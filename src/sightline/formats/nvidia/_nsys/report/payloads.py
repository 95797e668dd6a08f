"""What NVTX ranges carry besides a text: fields, in a layout that the program registered."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.formats.nvidia._nsys.codes import PAYLOAD_FORMATS, wrap_integer
from sightline.formats.nvidia._nsys.nvtx import PAYLOAD_HEADER

_ARRAY, _FIXED_ARRAY = 0x30, 0x10  # flags of an entry: kinds of arrays (nvToolsExtPayload.h)


class _Entry(NamedTuple):
    name: str
    offset: int
    form: struct.Struct
    is_array: bool  # of as many as the first entry says


class PayloadSchemas:
    """The layouts that each process registered, and the payloads that belong to no range."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self._layouts: dict[tuple[int, int], list[_Entry]] = {}
        self._ids: dict[tuple[int, str], int] = {}
        for process in message.processes:
            for schema in process.schemas:
                self._layouts[process.global_pid, schema.id] = _lay_out(schema.entries)
                self._ids[process.global_pid, str(schema.name)] = schema.id

    def names(self, global_pid: int, schema: int) -> set[str]:
        """Names of the fields of a payload."""
        return {entry.name for entry in self._layouts.get((global_pid, schema), ())}

    def decode(self, global_pid: int, schema: int, payload: bytes) -> dict[str, list[int]]:
        """Values by the fields' names, several of an array. Those beyond the payload are absent."""
        found: dict[str, list[int]] = {}
        count = 0
        for i, (name, offset, form, is_array) in enumerate(
            self._layouts.get((global_pid, schema), ())
        ):
            room = max(len(payload) - offset, 0) // form.size
            values = [
                form.unpack_from(payload, offset + k * form.size)[0]
                for k in range(min(count if is_array else 1, room))
            ]
            if i == 0 and values:
                count = values[0]
            if values:
                found[name] = values
        return found

    def list_entries(self) -> pl.DataFrame:
        """NVTX_PAYLOAD_SCHEMA_ENTRIES."""
        rows = [
            (wrap_integer(schema.id), i, *_wrap_fields(entry))
            for process in self._message.processes
            for schema in process.schemas
            for i, entry in enumerate(schema.entries)
        ]
        kinds = {"name": pl.String}
        columns = ("schemaId", "idx", "flags", "type", "offset", "name")
        schema = {name: kinds.get(name, pl.Int64) for name in columns}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def records(self, name: str) -> Iterator[tuple[int, int, dict[str, list[int]]]]:
        """Process, time and values of the records of a schema, by its name."""
        for process in self._message.processes:
            schema = self._ids.get((process.global_pid, name))
            for record in process.records:
                if record.schema == schema:
                    values = self.decode(process.global_pid, record.schema, record.payload)
                    yield process.global_pid, record.time, values


def _wrap_fields(entry: Any) -> tuple[int | None, int, int | None, str]:
    flags, kind, offset = (wrap_integer(v) for v in (entry.flags, entry.type, entry.offset))
    return flags or None, kind, offset or None, str(entry.name)


def _lay_out(entries: Any) -> list[_Entry]:
    found = []
    for entry in entries:
        form = PAYLOAD_FORMATS.get(entry.type)
        if form is not None and entry.flags & _ARRAY in (0, _ARRAY):
            is_array = entry.flags & _ARRAY == _ARRAY
            found.append(_Entry(str(entry.name), entry.offset, struct.Struct(form), is_array))
    return found


def write_payload(schema: int, payload: bytes) -> bytes:
    """A payload as the export's `binaryData` has it: a header with the schema's id before it."""
    return PAYLOAD_HEADER.pack(0, 0, schema & 0xFFFFFFFF, 0, 0, len(payload)) + payload
