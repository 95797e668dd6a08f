"""THAPI's traces as text: events of `iprof --trace`, and intervals as babeltrace2 prints them.

An event has the time of day, host, process, thread, provider and name, and its arguments in braces,
perhaps on lines of their own; a call is an event that ends in `_entry` and one in `_exit`. An
interval (`lttng:host`, `lttng:device`) has its begin since 1970 and its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._pairs import close_pairs
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="thapi_trace",
    label="THAPI iprof, trace (text)",
    strong=(
        rb"(?:\A|\n)(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{9} - [^\n]{1,80} - vpid: \d{1,10}, "
        rb"vtid: \d{1,10} - lttng_ust_\w{1,40}:\w",
        rb'(?:\A|\n)lttng:(?:host|device): \{ hostname = "',
    ),
    weak=(),
    looks_like="lines such as 13:46:47.480452608 - HOST - vpid: 1, vtid: 1 - lttng_ust_ze:zeInit",
    suffixes=(".txt", ".log", ".out"),
    version=1,
    source="https://github.com/argonne-lcf/THAPI",
)  # fmt: skip

_EVENT = re.compile(
    r"^(?:\d{4}-\d\d-\d\d )?(\d\d):(\d\d):(\d\d)\.(\d{9}) - .{1,80}? - vpid: (\d{1,10}), "
    r"vtid: (\d{1,19}) - lttng_ust_(\w{1,40}):(\w{1,200}): \{(.*)$"
)
_INTERVAL = re.compile(
    r'^lttng:(host|device): \{ hostname = "[^"]*", vpid = (\d{1,10}), vtid = (\d{1,19}), '
    r'ts = (\d{1,19}), backend = \d{1,3} \}, \{ name = "((?:[^"\\]|\\.)*)", dur = (\d{1,18})'
    r"(?:, did = (\d{1,19}), sdid = (\d{1,19}))?, err = (true|false)(?:, metadata = .*)? \}$"
)
_OTHER = re.compile(r"^lttng:\w+: \{.*\}$|^[ \t]*(?:\w+: .*|\},?|\{)$|^\s*$")
_NAME = re.compile(r'\bname: "((?:[^"\\]|\\.)*)"')
_SIDES = (
    (re.compile(r"^(.+)_entry$"), "begin"),
    (re.compile(r"^(.+)_exit$"), "end"),
    (re.compile(r"^__itt_(task|event)_(?:begin|start)$"), "begin"),
    (re.compile(r"^__itt_(task|event)_end$"), "end"),
)
_SCOPE = re.compile(r"\bendpoint: ompt_scope_(begin|end)\b")
_DAY_NS = 86_400 * 10**9
_LATEST = 2**62
# What a call is, by its name (as for the tally); PyTorch's operators are told by their provider.
_LAYERS = (
    (r"^(?:ze|zes|cl|cu)[A-Z]", "driver"),
    (r"^(?:hip|cuda|ur|pi)[A-Z]", "runtime"),
    (r"^P?MPI_", "mpi"),
    (r"^(?:ompt_|omp_)", "openmp"),
    (r"^\w+::", "op"),
)


class Line(NamedTuple):
    """A side of a call: when, whose, and whether it begins there."""

    time: int
    pid: int
    tid: int
    name: str
    side: str


class Span(NamedTuple):
    """An interval: of a thread, or of a device (its number as THAPI has it, a handle)."""

    start_ns: int
    end_ns: int
    pid: int
    tid: int
    name: str
    device: int | None
    failed: bool


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where no call or interval is."""
    quality: list[Quality] = []
    sides: list[Line] = []
    spans: list[Span] = []
    bad = 0
    for found in _read_lines(read_text(source, quality)):
        if isinstance(found, Span):
            spans.append(found)
        elif found is None:
            bad += 1
        elif found.side:
            sides.append(found)
    host = _list_host(sides, [one for one in spans if one.device is None], quality)
    work = [one for one in spans if one.device is not None]
    if not host.height and not work:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete call")
    if sides:
        text = "times are of the day, without a date: they cannot be aligned with other files"
        quality.append(Quality("no_date", "info", text))
    if sides and not work:
        text = "what devices did is not in the text: give THAPI's trace folder, or iprof --timeline"
        quality.append(Quality("no_device_ops", "info", text))
    quality += note_bad_lines(bad, "lines of THAPI")
    tables = {"host_ops": host, "device_ops": _list_work(work)}
    return Imported(tables, Recording("THAPI"), quality)


def _read_lines(text: str) -> Iterator[Line | Span | None]:
    """Each event or interval; None for a line that is none. Arguments may stand on later lines."""
    waiting: Line | None = None
    last = day = 0
    for line in text.splitlines():
        if (found := _INTERVAL.match(line)) is not None:
            yield _make_span(found)
        elif (event := _EVENT.match(line)) is not None:
            if waiting is not None:
                yield waiting
            made = _make_line(event)
            if made.time + day < last - _DAY_NS // 2:  # midnight
                day += _DAY_NS
            last = max(last, made.time + day)
            waiting = made._replace(time=made.time + day)
        elif waiting is not None and (name := _NAME.search(line)) is not None:
            waiting = waiting._replace(name=_say_name(waiting.name, name[1]))
        elif not _OTHER.match(line):
            yield None
    if waiting is not None:
        yield waiting


def _make_line(event: re.Match[str]) -> Line:
    hours, minutes, seconds, ns, pid, tid, _, name, rest = event.groups()
    time = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 10**9 + int(ns)
    side = ""
    for pattern, of in _SIDES:
        if (found := pattern.match(name)) is not None:
            name, side = (f"__itt_{found[1]}" if name.startswith("__itt_") else found[1]), of
            break
    if not side and (scope := _SCOPE.search(rest)) is not None:
        side = scope[1]
    if (own := _NAME.search(rest)) is not None:
        name = _say_name(name, own[1])
    return Line(time, int(pid), int(tid), replace_surrogates(name), side)


def _say_name(call: str, own: str) -> str:
    """The operator or task that a call names, which begins and ends there."""
    return replace_surrogates(own) if call in ("op", "__itt_task", "__itt_event") and own else call


def _make_span(found: re.Match[str]) -> Span | None:
    kind, pid, tid, start, name, length, device, _, failed = found.groups()
    begin = int(start)
    if begin + int(length) >= _LATEST:
        return None
    is_device = kind == "device" and device is not None
    return Span(
        begin,
        begin + int(length),
        int(pid),
        int(tid),
        replace_surrogates(name),
        int(device) if is_device else None,
        failed == "true",
    )


def _list_host(sides: list[Line], spans: list[Span], quality: list[Quality]) -> pl.DataFrame:
    """The table host_ops, nested by thread."""
    columns = ["start_ns", "end_ns", "pid", "tid", "name", "return_value"]
    schema = {c: pl.String if c == "name" else pl.Int64 for c in columns}
    rows = pl.DataFrame(
        [(s.start_ns, s.end_ns, s.pid, s.tid, s.name, 1 if s.failed else None) for s in spans],
        schema=schema,
        orient="row",
    )
    if sides:
        pairs = pl.DataFrame(sides, orient="row").with_row_index("event")
        closed, notes = close_pairs(pairs, ("pid", "tid"), "host_ops")
        quality += notes
        made = closed.select(
            "end_ns", "pid", "tid", "name", start_ns="time", return_value=pl.lit(None, pl.Int64)
        )
        rows = pl.concat([rows, made.select(columns)])
    layer = pl.lit("annotation")
    for pattern, of in reversed(_LAYERS):
        layer = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(of)).otherwise(layer)
    return nest_ranges(rows.sort("start_ns", maintain_order=True).with_columns(layer=layer))


def _list_work(spans: list[Span]) -> pl.DataFrame:
    """The table device_ops; devices are numbered in the order of their handles."""
    handles = sorted({one.device for one in spans if one.device is not None})
    numbers = {handle: number for number, handle in enumerate(handles)}
    rows = [
        (one.start_ns, one.end_ns, one.name, numbers[one.device])
        for one in spans
        if one.device is not None
    ]
    schema = {"start_ns": pl.Int64, "end_ns": pl.Int64, "name": pl.String, "device_id": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema, orient="row").sort("start_ns", maintain_order=True)
    lower = pl.col("name").str.to_lowercase()
    kind = (
        pl.when(lower.str.contains("memcpy|memorycopy|copybuffer|readbuffer|writebuffer"))
        .then(pl.lit("memcpy"))
        .when(lower.str.contains("memset|memoryfill|fillbuffer"))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel"))
    )
    return frame.with_columns(
        kind=kind,
        stream_id=pl.lit(0, pl.Int64),
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
    )
