"""The plain Python reader of Kineto and Chrome traces: what the compiled one is compared with.

It was the product's own until the compiled reader came. Where the two could differ by chance (the
order of joins with several matches, ties of ranges that a begin and an end event make) the rule
was written down in both.
"""

from __future__ import annotations

from reference_reader.events import Events
from reference_reader.rows import Rows
from reference_reader.tables import build
from sightline.errors import DamagedError
from sightline.model.declare import Imported, ImportOptions
from sightline.model.source import Source


def read(source: Source, options: ImportOptions) -> Imported:
    """Read a trace as far as it is intact. Raises DamagedError where it is no trace at all."""
    rows = Rows()
    with source.open() as stream:
        events = Events(stream, source.given)
        for event in events:
            rows.add(event)
    if not events.has_events:
        keys = ", ".join(repr(k)[:30] for k in list(events.header)[:6]) or "none"
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it is JSON but not a trace: no 'traceEvents' (top-level keys: {keys})",
            hint="sightline formats  lists what can be read.",
        )
    if rows.not_events and not rows.events:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it is JSON but not a trace: none of its {rows.not_events:,} items is an event",
            hint="sightline formats  lists what can be read.",
        )
    return build(rows, events.header, events.quality, options)
