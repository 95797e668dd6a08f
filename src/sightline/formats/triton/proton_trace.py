"""Triton Proton's chrome_trace: the kernels of each stream, a JSON document a line.

Format: triton-lang/triton, third_party/proton/csrc/lib/Data/TraceData.cpp: µs with decimals from
the first kernel on, the stream as tid, the scopes around the launch as call_stack. Devices are not
told apart; calls of the host are not recorded.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.errors import DamagedError
from sightline.formats._lines import read_utf8, split_lines
from sightline.formats._stacks import note_bad_lines

IMPORTER = Importer(
    name="proton_trace",
    label="Triton Proton timeline (chrome_trace)",
    strong=(rb'^\s*\{"displayTimeUnit":"\w+","traceEvents":\[\{"args":\{"call_stack":',),
    weak=(),
    looks_like='lines of JSON with "traceEvents" whose events have a "call_stack"',
    suffixes=(".chrome_trace", ".json"),
    version=5,
    source="https://github.com/triton-lang/triton/tree/main/third_party/proton",
)

_EVENT = {
    "ph": pl.String,
    "ts": pl.Float64,
    "dur": pl.Float64,
    "tid": pl.Int64,
    "name": pl.String,
}
# An event with its keys in the order in which Proton's JSON library sorts them.
_WRITTEN = (
    '{{"args":{:any},"cat":"{:any}","dur":{dur:number},"name":"{name:text}","ph":"X",'
    '"tid":{tid:int},"ts":{ts:number}}}'
)
_JSON_NUMBER = r"^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$"
_DOCUMENT = pl.Struct({"traceEvents": pl.List(pl.Struct(_EVENT))})
# Proton divides ns by 1,000: below this, times in µs as 64-bit numbers still tell each ns.
_LONGEST_US = 2**42


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the kernels of all streams. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    streams, bad = [], 0
    for line in read_utf8(source, quality).splitlines():
        if not line.strip():
            bad += 1  # where the document of a stream would stand
            continue
        try:
            events, odd = _split_stream(line) or _parse_stream(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            quality.append(
                Quality("truncated", "error", "the line of a stream is damaged, and left out")
            )
            continue
        streams.append(events)
        # A line holds the document of one stream: what follows it is another line's.
        bad += odd + line.count(b',"traceEvents":[') - 1
        bad += max(line.count(b'"ph":"X"') - events.height - odd, 0)
    events = pl.concat(streams) if streams else pl.DataFrame(schema=_EVENT)
    within = pl.all_horizontal(pl.col("ts", "dur").abs() < _LONGEST_US)
    is_whole = (pl.col("ph") == "X") & within & (pl.col("dur") >= 0) & pl.col("name").is_not_null()
    kernels = events.filter(is_whole)
    if kernels.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="it has no complete kernel")
    quality += note_bad_lines(bad + events.height - kernels.height, "kernel")
    text = "launches were not recorded: of idle time only its length is known"
    remedy = "Record the host, too:  torch.profiler, or nsys profile"
    quality.append(Quality("no_host_ops", "warning", text, None, remedy))
    start, length = (
        (pl.col(c) * 1000).round(mode="half_to_even").cast(pl.Int64) for c in ("ts", "dur")
    )
    ops = kernels.select("name", start_ns=start, end_ns=start + length, stream_id="tid").sort(
        "start_ns", "end_ns", maintain_order=True
    )
    tables = {
        "device_ops": ops.select(
            pl.all(),
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
            device_id=pl.lit(0, pl.Int64),
            kind=pl.lit("kernel"),
        ),
        "devices": pl.DataFrame({"device_id": [0]}, schema={"device_id": pl.Int64}),
    }
    return Imported(tables, Recording("Triton Proton"), quality)


def _split_stream(line: bytes) -> tuple[pl.DataFrame, int] | None:
    """The same as of _parse_stream, where all events are written as Proton writes them."""
    start, _, body = line.partition(b"[")
    if not start.endswith(b'"traceEvents":') or not body.endswith(b"]}"):
        return None
    (matched,), others = split_lines(body[:-2].replace(b"},{", b"}\n{"), _WRITTEN)
    texts = matched.texts
    is_plain = all(texts[c].str.contains(_JSON_NUMBER).all() for c in ("ts", "dur"))
    if others.height or not is_plain or texts["name"].str.contains("\\", literal=True).any():
        return None
    numbers = {
        c: texts[c].cast(pl.Float64).gather(matched.rows.get_column(c)) for c in ("ts", "dur")
    }
    events = matched.rows.with_columns(matched.text("name"), ph=pl.lit("X"), **numbers)
    return events.select(list(_EVENT)), 0


def _parse_stream(line: str) -> tuple[pl.DataFrame, int]:
    """The events of one stream's document, and how many are of another form.

    Raises ValueError, RecursionError where the document is damaged.
    """
    try:
        found = pl.Series([line]).str.json_decode(_DOCUMENT)
    except pl.exceptions.ComputeError:
        return _parse_odd_stream(line)
    return pl.DataFrame(found.struct.field("traceEvents").explode().drop_nulls().struct.unnest()), 0


def _parse_odd_stream(line: str) -> tuple[pl.DataFrame, int]:
    """The same, value by value: the document is damaged, or one of them is of another type."""
    document = json.loads(line)
    events = document.get("traceEvents") if isinstance(document, dict) else None
    listed = events if isinstance(events, list) else []
    rows = [
        {key: _fit(event.get(key), dtype) for key, dtype in _EVENT.items()}
        for event in listed
        if isinstance(event, dict)
    ]
    return pl.DataFrame(rows, schema=_EVENT), len(listed) - len(rows)


def _fit(value: Any, dtype: Any) -> Any:
    if dtype == pl.String:
        return replace_surrogates(value) if isinstance(value, str) else None
    if dtype == pl.Int64:
        return value if type(value) is int and -(2**62) < value < 2**62 else None
    is_number = type(value) is float or (type(value) is int and abs(value) < 2**62)
    return float(value) if is_number else None
