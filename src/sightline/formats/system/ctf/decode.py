"""Runs a plan over the streams of a trace: batches of events as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from sightline._native import CtfStreams
from sightline.core.algebra.arrow import unpack_columns
from sightline.formats.system.ctf.classes import Clock, Integer, MetadataError
from sightline.formats.system.ctf.folders import Trace
from sightline.formats.system.ctf.plan import Choice, Group, Leaf, Maybe, Plan, Repeated, Shape

# So many events, or bytes of them, are in memory at once. Larger batches are no faster.
BATCH_EVENTS, BATCH_BYTES = 1 << 17, 16 << 20
# What native/ctf/streams.h calls the damage of a packet.
DAMAGE = (
    "is whole",
    "ends too early",
    "does not begin as packets do",
    "is of a stream that the metadata does not declare",
    "holds an event that the metadata does not declare",
    "has a selector that chooses nothing",
    "has a size that makes no sense",
    "claims more elements than it can hold",
    "has bit fields of two byte orders in one byte",
)


@dataclass(frozen=True)
class Batch:
    """Rows of each table that has some; columns are named by their number."""

    tables: dict[int, pl.DataFrame]


class Reading:
    """The streams of one trace while they are read, then their packets and what was wrong."""

    def __init__(self, trace: Trace, plan: Plan) -> None:
        self._plan = plan
        self._streams = CtfStreams(plan.code, trace.streams)
        self._tables = sorted({table for table, _ in plan.columns} | {e.table for e in plan.events})
        self._packets: list[pl.DataFrame] = []
        self.trace = trace

    def read_batches(
        self, most_events: int = BATCH_EVENTS, most_bytes: int = BATCH_BYTES
    ) -> Iterator[Batch]:
        """Batches in the order of the files. Raises OSError where one cannot be read."""
        goes_on = True
        while goes_on:
            goes_on = self._streams.read(most_events, most_bytes)
            self._packets.append(unpack_columns(self._streams.take_packets()))
            yield Batch({t: self._take(t) for t in self._tables if self._streams.rows(t)})

    def _take(self, table: int) -> pl.DataFrame:
        frame = unpack_columns(self._streams.take(table))
        texts = [name for name, kind in frame.schema.items() if kind == pl.Binary]
        return frame.with_columns(
            decode_text(frame.get_column(name))
            for name in texts
            if self._plan.columns[int(name)][1] == "text"
        )

    def list_packets(self) -> pl.DataFrame:
        """All packets that were read so far, with what they say of themselves."""
        return pl.concat(self._packets)

    @property
    def events(self) -> int:
        """How many events were read."""
        return self._streams.events

    @property
    def damaged_packets(self) -> int:
        """How many packets were left before their end."""
        return self._streams.damaged_packets

    @property
    def foreign_packets(self) -> int:
        """How many packets have another UUID than the metadata."""
        return self._streams.foreign_packets

    @property
    def backward_events(self) -> int:
        """How many events have an earlier time than the one before them in their packet."""
        return self._streams.backward_events

    def describe_damage(self) -> list[str]:
        """What is wrong with the first packets that are damaged: file, byte and reason."""
        return [
            f"{self.trace.streams[file].name}, byte {byte}: the packet {DAMAGE[kind]}"
            for kind, file, byte in self._streams.problems()
        ]


def decode_text(texts: pl.Series) -> pl.Series:
    """Bytes as Unicode; what is none, as after damage, with replacement characters."""
    try:
        return texts.cast(pl.String)
    except pl.exceptions.ComputeError:
        decoded = [None if t is None else t.decode("utf-8", "replace") for t in texts.to_list()]
        return pl.Series(texts.name, decoded, dtype=pl.String)


def count_ns(clock: Clock, cycles: str = "time") -> pl.Expr:
    """The nanoseconds from a clock's origin, rounded down, of a column of its cycles (uint64)."""
    frequency = clock.frequency
    count = pl.col(cycles)
    start = clock.offset_s * 1_000_000_000 + clock.offset_cycles * 1_000_000_000 // frequency
    if frequency == 1_000_000_000:
        return count.reinterpret(signed=True) + _fit(start)
    # The part of a second, in cycles, is multiplied: with a clock of up to 18 GHz it fits 64 bits.
    if frequency > 18_000_000_000:
        raise MetadataError(f"the clock {clock.name!r} has {frequency} Hz, more than can be read")
    rest = clock.offset_cycles % frequency
    whole = (count // frequency + (count % frequency + rest) // frequency).cast(pl.Int64)
    part = (count % frequency + rest) % frequency * 1_000_000_000 // frequency
    seconds = clock.offset_s + clock.offset_cycles // frequency
    return whole * 1_000_000_000 + part.cast(pl.Int64) + _fit(seconds * 1_000_000_000)


def _fit(start: int) -> int:
    if not -(2**63) <= start < 2**63:
        raise MetadataError("a clock begins before 1678 or after 2262: its times do not fit")
    return start


def build_series(
    shape: Shape, frame: pl.DataFrame, tables: dict[int, pl.DataFrame]
) -> pl.Series | None:
    """The values of a field, a row each: structures as structs, arrays as lists.

    A blob is its digits in base 16. A variant is a struct of all options, of which one is not null.
    None where a structure has no fields, or the column was not wanted.
    """
    if isinstance(shape, Leaf):
        if shape.column < 0:
            return None
        values = frame.get_column(str(shape.column))
        if values.dtype == pl.Binary:
            return values.bin.encode("hex")
        is_flag = isinstance(shape.kind, Integer) and shape.kind.is_boolean
        return values.cast(pl.Boolean) if is_flag else values
    if isinstance(shape, Maybe):
        return build_series(shape.content, frame, tables)
    if isinstance(shape, Repeated):
        return _build_lists(shape, frame, tables)
    members = shape.members if isinstance(shape, Group) else shape.options
    assert isinstance(shape, (Group, Choice))
    built = {name: build_series(member, frame, tables) for name, member in members}
    kept = [series.alias(name) for name, series in built.items() if series is not None]
    return pl.DataFrame(kept).to_struct() if kept else None


def _build_lists(
    shape: Repeated, frame: pl.DataFrame, tables: dict[int, pl.DataFrame]
) -> pl.Series | None:
    if shape.column < 0:
        return None
    counts = frame.get_column(str(shape.column)).fill_null(0)
    inner = tables.get(shape.table)
    element = None if inner is None else build_series(shape.element, inner, tables)
    if element is None:
        return pl.Series([[] for _ in range(len(counts))], dtype=pl.List(pl.Null))
    rows = pl.int_range(len(counts), dtype=pl.UInt32, eager=True).repeat_by(counts).explode()
    owned = pl.DataFrame({"row": rows.drop_nulls(), "value": element})
    lists = owned.group_by("row", maintain_order=True).agg("value")
    all_rows = pl.DataFrame({"row": pl.int_range(len(counts), dtype=pl.UInt32, eager=True)})
    joined = all_rows.join(lists, on="row", how="left", maintain_order="left")
    return joined.get_column("value").fill_null([])
