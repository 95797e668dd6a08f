"""A second opinion on Kineto and Chrome traces: the plain meaning of each event, in plain Python.

The compiled reader is compared with it, to the nanosecond. It reads event by event, follows arrows
and correlation ids one at a time, and shares with the product only the bytes of the file and the
errors that say a file is no trace. What the product works out from a header or from a whole table
(devices, facts on the recording, sizes of collectives, the words of a limit) is no matter of
events: tests/formats states that by hand.

Where the two could differ by chance (several arrows with one number, ties of ranges that a begin
and an end event make) the rule is written down in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from reference_reader.events import Events
from reference_reader.limits import Limit, limits
from reference_reader.rows import Rows
from reference_reader.tables import build
from sightline.core.model.source import Source
from sightline.errors import DamagedError


@dataclass(frozen=True)
class Opinion:
    """The tables that events alone make, and the limits that they show."""

    tables: dict[str, pl.DataFrame]
    limits: list[Limit]


def read(source: Source) -> Opinion:
    """Read a trace as far as it is intact. Raises DamagedError where it is not a trace at all."""
    rows = Rows()
    with source.open() as stream:
        events = Events(stream, source.given)
        for event in events:
            rows.add(event)
    if not events.has_events or (rows.not_events and not rows.events):
        raise DamagedError("it is JSON but not a trace")
    tables, ambiguous, nowhere = build(rows, events.header)
    found = [(q.kind, q.count) for q in events.quality]
    return Opinion(tables, sorted(found + limits(rows, tables, ambiguous, nowhere), key=str))
