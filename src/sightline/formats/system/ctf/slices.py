"""The streams of all traces of a recording at once, cut into slices of time.

Each stream is in order of time by itself (CTF 1.8.3, 8). The one that lags behind is read on, so
that of each other one there is no more than a batch in memory. What lies before the time that all
have come to is complete: a slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from sightline.formats.system.ctf.decode import Reading
from sightline.formats.system.ctf.folders import Trace
from sightline.formats.system.ctf.rows import TIMELESS, Meaning, Rows, read_rows

# Rows of so many bytes are one slice; some ten times as much is in memory while it is made tables.
SLICE_BYTES = 12 << 20
_LEAST_EVENTS = 1 << 10  # of a batch, however many streams there are
BATCH_EVENTS = 1 << 16  # of a stream that are decoded at once
_MOST_EVENTS = 1 << 18  # the same of all streams together
_BEFORE_ALL = -(2**63)
_FILE_EVENTS = 40  # bits: events are numbered from 0 in each stream, and stay apart


@dataclass
class TraceReading:
    """The streams of one trace while they are read, and then what was found in them."""

    trace: Trace
    readings: list[Reading]

    @property
    def events(self) -> int:
        """How many events were read."""
        return sum(reading.events for reading in self.readings)

    @property
    def damaged_packets(self) -> int:
        """How many packets were left before their end."""
        return sum(reading.damaged_packets for reading in self.readings)

    @property
    def foreign_packets(self) -> int:
        """How many packets have another UUID than the metadata."""
        return sum(reading.foreign_packets for reading in self.readings)

    @property
    def backward_events(self) -> int:
        """How many events have an earlier time than the one before them in their packet."""
        return sum(reading.backward_events for reading in self.readings)

    def describe_damage(self) -> list[str]:
        """What is wrong with the first packets that are damaged: file, byte and reason."""
        return [text for reading in self.readings for text in reading.describe_damage()]

    def list_packets(self) -> pl.DataFrame:
        """All packets, with what they say of themselves; `file` is the stream's number."""
        found = [
            reading.list_packets().with_columns(file=pl.lit(number, pl.UInt64))
            for number, reading in enumerate(self.readings)
        ]
        return pl.concat(found)


def open_streams(trace: Trace, meaning: Meaning) -> TraceReading:
    """The trace's streams, each to be read by itself."""
    single = [Trace(trace.folder, (path,)) for path in trace.streams] or [trace]
    return TraceReading(trace, [Reading(one, meaning.plan) for one in single])


@dataclass
class _Stream:
    """A stream that is being read: its rows that are in no slice yet, and the time it is at."""

    steps: Iterator[int | None]
    rows: Rows = field(default_factory=Rows)
    reached: int | None = None
    goes_on: bool = True

    def advance(self) -> None:
        """Read one batch more, or find that there is none."""
        for reached in self.steps:
            self.reached = reached
            return
        self.goes_on = False

    @property
    def order(self) -> int:
        """How far it has come; one that has no time yet is read on before all others."""
        return _BEFORE_ALL if self.reached is None else self.reached


class Slices:
    """Rows of all streams, slice by slice in order of time."""

    def __init__(
        self,
        opened: Sequence[tuple[TraceReading, Meaning]],
        slice_bytes: int = SLICE_BYTES,
        batch_events: int = BATCH_EVENTS,
    ) -> None:
        every = [(reading, meaning) for trace, meaning in opened for reading in trace.readings]
        most = min(max(_MOST_EVENTS // max(len(every), 1), _LEAST_EVENTS), batch_events)
        self._slice_bytes = slice_bytes
        self._cut_at = _BEFORE_ALL
        self._streams = [_Stream(iter(())) for _ in every]
        for number, (stream, (reading, meaning)) in enumerate(
            zip(self._streams, every, strict=True)
        ):
            first = number << _FILE_EVENTS
            stream.steps = read_rows(stream.rows, reading, meaning, first, most)

    @property
    def timeless(self) -> int:
        """How many rows had no time, and were left out."""
        return sum(stream.rows.timeless for stream in self._streams)

    def read(self) -> Iterator[tuple[int, Rows]]:
        """The slices, each with the time that it is from. Raises OSError."""
        held = 0
        while going := [stream for stream in self._streams if stream.goes_on]:
            lagging = min(going, key=lambda stream: stream.order)
            before = lagging.rows.measure_bytes()
            lagging.advance()
            held += lagging.rows.measure_bytes() - before
            if held >= self._slice_bytes:
                yield self._cut()
                held = sum(stream.rows.measure_bytes() for stream in self._streams)
        yield self._cut()

    def _cut(self) -> tuple[int, Rows]:
        """All rows before the time that every stream has come to."""
        until = min((stream.order for stream in self._streams if stream.goes_on), default=None)
        since, found = self._cut_at, Rows()
        self._cut_at = since if until is None else max(since, until)
        for stream in self._streams:
            for key, parts in stream.rows.parts.items():
                frame = pl.concat(parts, how="diagonal_relaxed")
                if until is None or key[0] in (*TIMELESS, "threads"):
                    found.add(*key, frame)
                    stream.rows.parts[key] = []
                    continue
                is_done = pl.col("time") < until
                found.add(*key, frame.filter(is_done))
                stream.rows.parts[key] = [frame.filter(~is_done)]
            stream.rows.parts = {key: parts for key, parts in stream.rows.parts.items() if parts}
        return since, found
