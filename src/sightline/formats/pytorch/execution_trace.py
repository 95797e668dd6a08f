"""PyTorch's execution traces (JSON) to which Chakra's linker has added times: its `et_plus`.

ExecutionTraceObserver writes a graph of operators without times. chakra_trace_link adds what the
profiler recorded beside it: `ts` and `inclusive_dur` in µs of the operators, and a node for each
kernel, copy and memset, with its category and stream, below the operator that launched it
(mlcommons/chakra, src/trace_link). A graph without times is refused: nothing in it is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import note_misspelt_keys

IMPORTER = Importer(
    name="execution_trace",
    label="PyTorch execution trace with times (Chakra et_plus, JSON)",
    strong=(rb'\A\s*\{\s*"schema"\s*:\s*"\d[\d.]*(?:-chakra[\d.]*)?"',),
    weak=(),
    looks_like='JSON that begins with "schema": "1.1.0-chakra.0.0.4"',
    suffixes=(".json", ".json.gz"),
    version=5,
    source="https://github.com/mlcommons/chakra/blob/main/USER_GUIDE.md",
)

_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_FRAME = "[pytorch|profiler|execution_trace|"  # the process and the thread themselves
_KEYS = frozenset(("nodes", "attrs", "inclusive_dur", "exclusive_dur", "stream", "schema",
                   "ctrl_deps", "inputs", "outputs"))  # fmt: skip
_MOST_NS = INT64_MAX // 4
_COLUMNS = {"name": pl.String, "kind": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64,
            "lane": pl.Int64}  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all nodes that have times. Raises DamagedError where none has."""
    quality: list[Quality] = []
    try:
        # µs with decimals exceed what a double holds.
        trace = parse_json(read_text(source, quality), quality, Decimal)
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not JSON ({error})"
        ) from error
    quality += note_misspelt_keys(trace, _KEYS)
    told = trace.get("nodes") if isinstance(trace, dict) else None
    nodes = told if isinstance(told, list) else []
    rows = list(_list_rows(nodes))
    quality += note_bad_lines(sum(map(_is_damaged, nodes)), "node with a time")
    frame = pl.DataFrame(rows, schema=_COLUMNS, orient="row").sort("start_ns", "end_ns")
    if frame.is_empty():
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is an execution trace of PyTorch (Chakra), which has no times of a GPU",
            hint="Give the trace of the PyTorch profiler that it was made with.",
        )
    text = "it shows which operator launched what, but not when: launches and waits are not judged"
    quality.append(Quality("no_api_calls", "warning", text, None, "Give the profiler's trace."))
    host = frame.filter(pl.col("kind").is_null()).select(
        "name", "start_ns", "end_ns", pid=pl.lit(0, pl.Int64), tid="lane", layer=pl.lit("op")
    )
    device = frame.filter(pl.col("kind").is_not_null()).select(
        "name", "kind", "start_ns", "end_ns",
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
        device_id=pl.lit(0, pl.Int64),
        stream_id="lane",
    )  # fmt: skip
    version = replace_surrogates(str(trace.get("schema")))
    tables = {"host_ops": nest_ranges(host), "device_ops": device}
    return Imported(tables, Recording("Chakra", version), quality)


def _list_rows(nodes: list[Any]) -> Iterator[tuple[str, str | None, int, int, int]]:
    """Name, kind (None: an operator), start, end, and thread or stream of each timed node."""
    for node in nodes:
        if not isinstance(node, dict) or not isinstance(name := node.get("name"), str):
            continue
        start, length = _read_us(node.get("ts")), _read_us(node.get("inclusive_dur"))
        category = node.get("cat")
        if start is None or length is None or name.startswith(_FRAME):
            continue
        if category is not None and category not in _KINDS:
            continue
        kind = None if category is None else _KINDS[category]
        lane = node.get("stream") if kind else _find_thread(node)
        whole = lane if type(lane) is int and 0 <= lane <= INT64_MAX else 0
        yield replace_surrogates(name), kind, start, start + length, whole


def _is_damaged(node: Any) -> bool:
    """Whether a node with a time lacks what the linker writes of each."""
    if not isinstance(node, dict):
        return True
    is_timed = "ts" in node or "inclusive_dur" in node
    # Of a device's work both its category and its stream are there.
    is_half = (node.get("cat") in _KINDS) != ("stream" in node)
    return is_timed and ("name" not in node or "inclusive_dur" not in node or is_half)


def _find_thread(node: dict[str, Any]) -> Any:
    """A field of its own until schema 1.0.1, an attribute since."""
    attributes = node.get("attrs")
    found = (
        a.get("value") for a in attributes or () if isinstance(a, dict) and a.get("name") == "tid"
    )
    return node["tid"] if "tid" in node else next(found, 0)


def _read_us(value: Any) -> int | None:
    """µs, a number or its text, as ns; None for what is none, or beyond what a column holds."""
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        return None
    ns = Decimal(value) * 1000
    if not ns.is_finite() or not 0 <= ns < _MOST_NS:
        return None
    return int(ns.to_integral_value(ROUND_HALF_EVEN))
