"""PyTorch profiler (Kineto) traces of every generation, and Chrome traces in general.

Format: the Trace Event Format, and what Kineto writes into it (pytorch/kineto,
libkineto/src/output_json.cpp). Times: `ts` and `dur` are µs with decimals, relative to the
top-level baseTimeNanoseconds where that is present.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source
from sightline.core.units import format_several
from sightline.errors import DamagedError
from sightline.formats.pytorch.kineto.reading import Reading
from sightline.formats.pytorch.kineto.stamps import read_stamps
from sightline.formats.pytorch.kineto.tables import build_tables

IMPORTER = Importer(
    name="kineto",
    label="PyTorch profiler (Kineto) or Chrome trace",
    strong=(
        # Proton writes a document for each stream, which its own reader puts together; unitrace
        # and rocprof have device work under names of their own, for which there are readers, too.
        rb'^(?!\s*\{"displayTimeUnit":"\w+","traceEvents":\[\{"args":\{"call_stack":)'
        rb'(?!.{0,2000}?"Note"\s*:\s*"[\d.]+\s*ms = 1 cycle")'
        rb'(?!\{ [^\n]{0,18}\n(?:[^\n]{0,2000}\n)?\{"ph": "\w", "tid": \d+, "pid": \d+, )'
        rb'(?!\{ "traceEvents":\[\{\}\r?\n,\{"args":\{"name":")'
        rb'.*?"traceEvents"\s*:',
        rb'^\s*\{\s*"schemaVersion"\s*:',
        # onetrace writes the queues of devices as threads of the host: it has a reader of its own.
        rb'^(?!\[\n\{"ph":"M", "name":"process_name", [^\n]*\n\{"ph":"M", "name":"\w+_start_time")'
        rb'\s*\[\s*\{[^{}]{0,400}"ph"\s*:',
    ),
    # A list of objects or an object of texts, or the beginning of one: a log may begin with [, too.
    weak=(rb"^(?:\xef\xbb\xbf)?\s*(?:\[[\s,]*(?:[{\]]|\Z)|\{\s*(?:[\"}]|\Z))",),
    looks_like='JSON with "traceEvents", or a JSON list of events with "ph"',
    suffixes=(".json", ".json.gz"),
    version=27,
    source="https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read a trace as far as it is intact. Raises DamagedError where it is not a trace at all."""
    reading = Reading(source)
    reading.run()
    counted = reading.trace.counted()
    if not reading.has_events:
        if "traceEvents" in reading.header:
            raise DamagedError(
                f"cannot read {source.given}",
                why="it is JSON but not a trace: its 'traceEvents' is not a list of events",
                hint="Take it out:  jq .traceEvents TRACE.json > INNER.json",
            )
        keys = ", ".join(repr(k)[:30] for k in list(reading.header)[:6]) or "none"
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it is JSON but not a trace: no 'traceEvents' (top-level keys: {keys})",
            hint="sightline formats  lists what can be read.",
        )
    if reading.too_large is not None and not counted["events"]:
        raise DamagedError(f"cannot read {source.given}", why=reading.too_large)
    if reading.is_list and not counted["events"] and not counted["not_events"]:
        raise DamagedError(f"cannot read {source.given}", why="it is a list without an event")
    if counted["not_events"] and not counted["events"]:
        count = counted["not_events"]
        raise DamagedError(
            f"cannot read {source.given}",
            why=(
                f"it is JSON but not a trace: it holds {format_several(count, 'item')} and no event"
            ),
            hint="sightline formats  lists what can be read.",
        )
    imported = build_tables(reading.trace, counted, reading.header, reading.quality, options)
    return read_stamps(source, imported, counted["process_names"]) or imported
