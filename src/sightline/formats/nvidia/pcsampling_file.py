"""PC samples that NVIDIA's libpcsamplingutil wrote, as CUPTI's sample programs do.

A file is a header (version, number of buffers), then for each buffer four sizes and a FlatBuffer
with the identifier CUPS. The fields' numbers were found by writing values that differ in all
fields with the libraries of CUDA 12.9, 13.0 and 13.5, which write the same bytes; the test beside
writes such a file with the library and compares. Cubins are not in it, so there are no lines.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.errors import DamagedError
from sightline.formats.nvidia._pc_samples import SAMPLES, build_samples

IMPORTER = Importer(
    name="pcsampling_file",
    label="PC samples of CUPTI (libpcsamplingutil)",
    strong=(rb"(?s)^\x01\x00\x00\x00.{40}CUPS",),
    weak=(),
    looks_like="a version of 1, sizes, and CUPS at byte 44",
    suffixes=(".dat",),
    version=5,
    source="https://docs.nvidia.com/cupti/main/main.html#cupti-pc-sampling-api",
    proven="files that the libraries of CUDA 12.9, 13.0 and 13.5 wrote from test values; never "
    "seen: one that was recorded on a GPU",
)
_FILE = struct.Struct("<II")  # version, buffers
_BUFFER = struct.Struct("<QQQQ")  # records, stall reasons, selected ones, bytes of the FlatBuffer
_VERSION = 1
# Numbers of the fields of the FlatBuffer's tables.
_CONFIGURED, _TOTAL, _DROPPED, _PLACES, _NON_USER = 0, 3, 4, 8, 9
_ATTRIBUTES = 5
_EMPTY = 4096  # bytes: a buffer's settings, and the names of reasons to stall
_PERIOD, _MODE, _INDICES, _NAMES = 0, 4, 7, 8
_CRC, _OFFSET, _FUNCTION, _COUNTS, _CORRELATION = 1, 2, 4, 6, 7


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all whole buffers. Raises DamagedError where not one is."""
    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES)
    if len(data) < _FILE.size or data[:4] != b"\x01\0\0\0":
        raise DamagedError(f"cannot read {source.given}", why="it has no header of version 1")
    samples, totals, why = _read_buffers(data)
    if samples is None:
        why = damage or why or "it holds none"
        raise DamagedError(
            f"cannot read {source.given}", why=f"its first buffer is damaged ({why})"
        )
    kernels, placed, counts = build_samples(samples, {}, pl.DataFrame(), pl.DataFrame())
    quality = _list_limits(totals, counts, damage or why)
    tables = {"profiled_kernels": kernels, "pc_samples": placed}
    return Imported(tables, Recording("CUPTI PC sampling"), quality)


def list_rows(data: bytes) -> pl.DataFrame:
    """The samples of a whole file, as they were handed to the library: the columns of SAMPLES."""
    samples, _, why = _read_buffers(data)
    if samples is None or why is not None:
        raise ValueError(why or "there is no buffer")
    return samples


def _read_buffers(data: bytes) -> tuple[pl.DataFrame | None, list[int], str | None]:
    """Samples and totals of all whole buffers, and why it ended early; no samples where none is."""
    rows: list[tuple[Any, ...]] = []
    totals = [0, 0, 0, 0]
    _, buffers = _FILE.unpack_from(data)
    at, whole = _FILE.size, 0
    why = None
    for _ in range(buffers):
        try:
            end = at + _BUFFER.size + _BUFFER.unpack_from(data, at)[3]
            if end > len(data):
                raise ValueError("a buffer is cut off")
            before = len(rows)
            found = _read_buffer(_Flat(data[at + _BUFFER.size : end]), rows)
        except (struct.error, ValueError) as error:
            why = str(error)
            break
        if len(rows) == before and end - at > _BUFFER.size + _EMPTY:
            why = "a buffer that is not empty holds no sample"
        totals = [old + new for old, new in zip(totals, found, strict=True)]
        at, whole = end, whole + 1
    samples = pl.DataFrame(rows, schema=SAMPLES, orient="row") if whole else None
    return samples, totals, why


class _Flat:
    """A FlatBuffer, read by the numbers of fields; a place outside of it is a ValueError."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, at: int, width: int, *, signed: bool = False) -> int:
        if at < 0 or at + width > len(self.data):
            raise ValueError("a FlatBuffer refers to a place outside of it")
        return int.from_bytes(self.data[at : at + width], "little", signed=signed)

    def follow(self, at: int) -> int:
        return at + self.number(at, 4)

    def field(self, table: int, number: int) -> int:
        """Where a table's field is; 0 where it has its default."""
        places = table - self.number(table, 4, signed=True)
        if 4 + 2 * number >= self.number(places, 2):
            return 0
        inside = self.number(places + 4 + 2 * number, 2)
        return table + inside if inside else 0

    def value(self, table: int, number: int, width: int) -> int:
        at = self.field(table, number)
        return self.number(at, width) if at else 0

    def vector(self, table: int, number: int, width: int) -> Iterator[int]:
        """Where the elements of a vector are."""
        at = self.field(table, number)
        if not at:
            return
        at = self.follow(at)
        count = self.number(at, 4)
        if at + 4 + count * width > len(self.data):
            raise ValueError("a vector is longer than its FlatBuffer")
        yield from range(at + 4, at + 4 + count * width, width)

    def text(self, at: int) -> str:
        at = self.follow(at)
        size = self.number(at, 4)
        self.number(at + 4 + max(size - 1, 0), 1)
        return self.data[at + 4 : at + 4 + size].decode("utf-8", "replace")


def _read_buffer(flat: _Flat, rows: list[tuple[Any, ...]]) -> list[int]:
    """Add a buffer's samples; its totals: all samples, dropped ones, those of no user's kernels.

    And how many places name no code or no kernel.
    """
    if flat.data[4:8] != b"CUPS":
        raise ValueError("a buffer is not marked CUPS")
    root = flat.follow(0)
    names: dict[int, str] = {}
    period = 0
    configured = flat.field(root, _CONFIGURED)
    if configured:
        table = flat.follow(configured)
        attributes = flat.field(table, _ATTRIBUTES)
        if attributes:
            table = flat.follow(attributes)
            period = flat.value(table, _PERIOD, 4)
            indices = [flat.number(at, 4) for at in flat.vector(table, _INDICES, 4)]
            texts = [flat.text(at) for at in flat.vector(table, _NAMES, 4)]
            names = dict(zip(indices, texts, strict=False))
    added, nameless = [], 0
    for place in flat.vector(root, _PLACES, 4):
        table = flat.follow(place)
        name = flat.field(table, _FUNCTION)
        crc, offset = flat.value(table, _CRC, 8), flat.value(table, _OFFSET, 8)
        nameless += not crc or not name  # which code it is of: what is 0 is not written
        key = (
            0, None, period, _wrap(crc), flat.text(name) if name else None, _wrap(offset),
            flat.value(table, _CORRELATION, 4),
        )  # fmt: skip
        for at in flat.vector(table, _COUNTS, 8):
            count = flat.number(at + 4, 4)
            if count:
                added.append((*key, names.get(flat.number(at, 4)), count))
        if len(added) > len(flat.data):  # tables may share what they refer to
            raise ValueError("its places have more samples than it has bytes")
    rows += added
    told = [_wrap(flat.value(root, number, 8)) for number in (_TOTAL, _DROPPED, _NON_USER)]
    return [*told, nameless]


def _wrap(number: int) -> int:
    """A number of 64 bits as int64 has it."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _list_limits(totals: list[int], counts: dict[str, int], why: str | None) -> list[Quality]:
    found = []
    if why is not None:
        found.append(Quality("truncated", "error", f"reading stopped early: {why}"))
    total, dropped, non_user, nameless = totals
    if nameless:
        text = (
            "sample locations name no code or no kernel: their samples may be attributed to another"
        )
        found.append(Quality("damaged_places", "warning", text, nameless))
    if dropped > 0:
        text = f"PC samples were dropped by the hardware, of {total} in all"
        found.append(Quality("dropped_samples", "warning", text, dropped))
    if non_user > 0:
        text = f"PC samples fell into kernels that are not the program's, of {total} in all"
        found.append(Quality("non_user_samples", "info", text, non_user))
    if counts.get("unnamed_reasons"):
        text = "PC samples have a reason without a name, and were left out"
        found.append(Quality("unnamed_reasons", "warning", text, counts["unnamed_reasons"]))
    if counts.get("without_code"):
        text = "PC samples have no source lines: the file holds no GPU code"
        remedy = "Record with lines:  sightline run --for stalls -- PROGRAM"
        found.append(Quality("samples_without_code", "info", text, counts["without_code"], remedy))
    return found
