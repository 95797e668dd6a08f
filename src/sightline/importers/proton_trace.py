"""Triton Proton's chrome_trace: the kernels of each stream, a JSON document a line.

Format: triton-lang/triton, third_party/proton/csrc/lib/Data/TraceData.cpp: µs with decimals from
the first kernel on, the stream as tid, the scopes around the launch as call_stack. Devices are not
told apart; calls of the host are not recorded.
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import polars as pl

from sightline.errors import DamagedError
from sightline.importers._stacks import note_bad_lines, read_text
from sightline.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.model.source import Source

IMPORTER = Importer(
    name="proton_trace",
    label="Triton Proton timeline (chrome_trace)",
    strong=(rb'^\s*\{"displayTimeUnit":"\w+","traceEvents":\[\{"args":\{"call_stack":',),
    weak=(),
    looks_like='lines of JSON with "traceEvents" whose events have a "call_stack"',
    suffixes=(".chrome_trace", ".json"),
    version=1,
    source="https://github.com/triton-lang/triton/tree/main/third_party/proton",
)

_SCHEMA = {
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "stream_id": pl.Int64,
    "name": pl.String,
}
_LONGEST_US = Decimal(10**15)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the kernels of all streams. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    rows: list[dict[str, Any]] = []
    bad = 0
    for line in read_text(source, quality).splitlines():
        try:
            document = json.loads(line, parse_float=Decimal) if line.strip() else {}
        except (ValueError, RecursionError, ArithmeticError):
            quality.append(
                Quality("truncated", "error", "the line of a stream is damaged, and left out")
            )
            continue
        events = document.get("traceEvents") if isinstance(document, dict) else None
        for event in events if isinstance(events, list) else []:
            row = _describe(event)
            bad += row is None
            rows += [row] if row else []
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="no kernel in it is whole")
    quality += note_bad_lines(bad, "kernel")
    text = "launches were not recorded: of idle time only its length is known"
    remedy = "Record the host, too:  torch.profiler, or nsys profile"
    quality.append(Quality("no_host_ops", "warning", text, None, remedy))
    ops = pl.DataFrame(rows, schema=_SCHEMA).sort("start_ns", "end_ns", maintain_order=True)
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


def _describe(event: Any) -> dict[str, Any] | None:
    """A kernel; None where its times are none, or it ends before it starts."""
    if not isinstance(event, dict) or event.get("ph") != "X":
        return None
    start, length = _nanoseconds(event.get("ts")), _nanoseconds(event.get("dur"))
    stream, name = event.get("tid"), event.get("name")
    if start is None or length is None or length < 0 or not isinstance(name, str):
        return None
    known = stream if type(stream) is int and -(2**62) < stream < 2**62 else None
    return {"start_ns": start, "end_ns": start + length, "stream_id": known, "name": name}


def _nanoseconds(us: Any) -> int | None:
    """Whole ns, rounded half to even."""
    if isinstance(us, bool) or not isinstance(us, int | Decimal):
        return None
    value = Decimal(us)
    if not value.is_finite() or abs(value) > _LONGEST_US:
        return None
    return int((value * 1000).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))
