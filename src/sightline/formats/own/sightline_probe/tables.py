"""The blocks of a probe file as tables, and what limits conclusions.

Calls are known from their entry to their return, with
their arguments. When the GPU did what they asked for is not: no row of `device_ops` is made up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.cxx_names import demangle
from sightline.core.model import probe_file as f
from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.formats.own._blocks import LATEST_NS, are_counts, find_clock, open_blocks, read_text

# 80 bytes each in the file; nested and with their columns they take some 5 GB.
_MOST_CALLS = 20_000_000
_MERGED = ("kernels", "call_stacks")  # facts of which a later block holds only what is new
_REQUESTS = {
    "launch": "kernel", "graph": "graph", "copy": "memcpy", "fill": "memset", "allocate": "alloc",
    "free": "free", "collective": "collective",
}  # fmt: skip
# cudaMemcpyKind, hipMemcpyKind (driver_types.h); 5 is ours, for calls between two devices.
_COPIES = {0: "HtoH", 1: "HtoD", 2: "DtoH", 3: "DtoD", 5: "PtoP"}
# ncclDataType_t (nccl.h 2.29): name and bytes.
_TYPES = (
    ("int8", 1), ("uint8", 1), ("int32", 4), ("uint32", 4), ("int64", 8), ("uint64", 8),
    ("float16", 2), ("float32", 4), ("float64", 8), ("bfloat16", 2), ("float8e4m3", 1),
    ("float8e5m2", 1),
)  # fmt: skip


@dataclass
class _Read:
    calls: np.ndarray[Any, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    missing: int = 0  # bytes that the last block lacks
    damaged: int = 0  # blocks that say nothing
    left_out: int = 0  # calls beyond those that are read


def read_probe(source: Source, *, most_calls: int = _MOST_CALLS) -> Imported:
    """Read the first `most_calls`. Raises DamagedError where not even the header is whole."""
    found = read_blocks(source, most_calls)
    functions = _list_functions(found.facts)
    offset, apart = find_clock(found.facts)
    rows, wrong = _tabulate(found, functions, offset)
    trie = StackTrie()
    rows = _add_stacks(rows, found.facts, trie)
    host = nest_ranges(rows)
    tables = {
        "host_ops": host.select(
            "host_op_id", "pid", "tid", "layer", "name", "start_ns", "end_ns", "parent_id", "depth",
            "subtree_end_id", "return_value", "stack_id",
        ),
        "requests": _list_requests(host, found.facts),
        "syncs": _list_waits(host),
        "threads": _list_threads(host, found.facts),
        **(trie.tables() if found.facts.get("stacks") else {}),
    }  # fmt: skip
    quality = [*_note_losses(found, host, wrong), *_note_limits(found, host)]
    span = found.facts.get("span_ns")
    start, end = [v + offset for v in span] if are_counts(span, 2) else [None, None]
    recording = Recording(
        tool="sightline probe",
        tool_version=read_text(found.facts.get("sightline")),
        rank=_number(found.facts.get("rank")),
        world_size=_number(found.facts.get("world_size")),
        clock_offset_ns=offset,
        clock_uncertainty_ns=apart,
        start_ns=start,
        end_ns=end,
        has_stacks=bool(found.facts.get("stacks")),
        own={"local_rank": _number(found.facts.get("local_rank"))},
        layers=tuple(host.get_column("layer").unique().sort()),
    )
    return Imported(tables, recording, quality)


# -- the file -------------------------------------------------------------------------------------


def read_blocks(source: Source, most_calls: int = _MOST_CALLS) -> _Read:
    """What the file says, as it stands in its blocks. Raises DamagedError as `read_probe` does."""
    parts: list[np.ndarray[Any, Any]] = []
    found = _Read(np.zeros(0, f.RECORD))
    count = 0
    with source.open() as stream:
        size = f.RECORD.itemsize
        for block in open_blocks(stream, source.given, f.VERSION, size):
            found.missing += block.missing
            if block.kind == f.CALLS:
                whole = len(block.content) // size * size
                calls = np.frombuffer(block.content[:whole], f.RECORD)
                kept = calls[: max(most_calls - count, 0)]
                parts.append(kept)
                count += len(kept)
                found.left_out += len(calls) - len(kept)
            elif block.kind != f.FACTS or not _merge_facts(found.facts, block.content):
                found.damaged += not block.missing
    if parts:
        found.calls = np.concatenate(parts)
    return found


def _merge_facts(facts: dict[str, Any], content: bytes) -> bool:
    if len(content) > f.MAX_FACTS_BYTES:
        return False
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if not isinstance(told, dict):
        return False
    for name, value in told.items():
        known = facts.get(name)
        if name in _MERGED and isinstance(known, dict) and isinstance(value, dict):
            known.update(value)
        else:
            facts[name] = value
    return True


def _list_functions(facts: dict[str, Any]) -> pl.DataFrame:
    """function, name, layer, kind of each number; what is damaged is left out."""
    rows = [
        (number, *row)
        for number, row in enumerate(_items(facts.get("functions")))
        if isinstance(row, list) and len(row) == 3 and all(isinstance(text, str) for text in row)
    ]
    types = {"function": pl.UInt16, "name": pl.String, "layer": pl.String, "kind": pl.String}
    return pl.DataFrame(rows[: 1 << 16], schema=types, orient="row")


# -- tables ---------------------------------------------------------------------------------------


def _tabulate(found: _Read, functions: pl.DataFrame, offset: int) -> tuple[pl.DataFrame, int]:
    """The calls as columns, and how many make no sense: unknown functions, times that run back."""
    calls = found.calls
    good = (calls["start"] <= calls["end"]) & (calls["end"] < LATEST_NS)
    calls = calls[good]
    words = calls["words"].view(np.int64)  # handles and sizes of 64 bits are the same number
    frame = pl.DataFrame(
        {
            "function": calls["function"],
            "pid": calls["pid"].astype(np.int64),
            "tid": calls["tid"].astype(np.int64),
            "start_ns": calls["start"].astype(np.int64) + offset,
            "end_ns": calls["end"].astype(np.int64) + offset,
            "return_value": calls["result"],
            "is_nested": (calls["flags"] & f.NESTED) != 0,
            "stack": calls["stack"].astype(np.int64),
            "caller": calls["caller"].astype(np.int64),
            **{f"word{i}": np.ascontiguousarray(words[:, i]) for i in range(5)},
        }
    )
    frame = frame.join(functions, on="function", how="inner", maintain_order="left")
    odd = frame.filter(~pl.col("kind").is_in(f.KINDS)).height
    return frame, len(found.calls) - frame.height + odd


def _add_stacks(rows: pl.DataFrame, facts: dict[str, Any], trie: StackTrie) -> pl.DataFrame:
    told = facts.get("call_stacks")
    ids: dict[str, int] = {}
    for key, frames in told.items() if isinstance(told, dict) else ():
        path = [_make_frame(pair) for pair in reversed(_items(frames)) if _is_frame(pair)]
        stack = trie.add(path)
        if stack is not None:
            ids[key] = stack
    known = pl.DataFrame(
        {"key": list(ids), "stack_id": list(ids.values())},
        schema={"key": pl.String, "stack_id": pl.Int64},
    )
    numbers = known.select(
        stack=pl.col("key").str.extract(r"^(\d{1,9}):").cast(pl.Int64),
        caller=pl.col("key").str.extract(r":([0-9a-f]{1,15})$").str.to_integer(base=16),
        stack_id="stack_id",
    ).drop_nulls()
    return rows.join(numbers, on=["stack", "caller"], how="left", maintain_order="left")


def _is_frame(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)


def _make_frame(pair: list[Any]) -> Frame:
    """A module and a function; CPython's trampolines are called py::FUNCTION:FILE."""
    module, function = pair[0] or None, pair[1] if isinstance(pair[1], str) else None
    if function is not None and function.startswith("py::"):
        name, _, file = function[4:].partition(":")
        return Frame("python", name, file or None)
    return Frame("native", demangle(function) if function else f"[{module}]", None, None, module)


def _list_requests(host: pl.DataFrame, facts: dict[str, Any]) -> pl.DataFrame:
    """What the calls asked for; a call inside another one of its kind asks for nothing more."""
    rows = host.filter(pl.col("kind").is_in(list(_REQUESTS)) & ~pl.col("is_nested"))
    kind = pl.col("kind")
    launch, copy, fill = kind == "launch", kind == "copy", kind == "fill"
    allocate, collective = kind == "allocate", kind == "collective"
    kernels = _name_kernels(facts)
    mangled = pl.col("word0").replace_strict(kernels, default=None, return_dtype=pl.String)
    low, high = pl.col("word1") & 0xFFFFFFFF, (pl.col("word1") // (1 << 32)) & 0xFFFFFFFF
    types = {number: name for number, (name, _) in enumerate(_TYPES)}
    sizes = {number: size for number, (_, size) in enumerate(_TYPES)}
    element = pl.col("word1").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    sent = pl.when(pl.col("word0").is_between(0, 1 << 56)).then(pl.col("word0") * element)
    size = (
        pl.when(copy | fill).then("word2").when(allocate).then("word1").when(collective).then(sent)
    )
    op = pl.col("name").str.strip_prefix("nccl").str.to_lowercase()
    rows = rows.select(
        "host_op_id",
        kind=kind.replace_strict(_REQUESTS),
        mangled_name=pl.when(launch).then(mangled if kernels else None),
        handle=pl.when(launch | (kind == "graph")).then("word0"),
        grid_x=pl.when(launch).then(low),
        grid_y=pl.when(launch).then(high),
        grid_z=pl.when(launch).then(pl.col("word2") & 0xFFFFFFFF),
        block_x=pl.when(launch).then(pl.col("word3") & 0xFFFF),
        block_y=pl.when(launch).then(pl.col("word3") // (1 << 16) & 0xFFFF),
        block_z=pl.when(launch).then(pl.col("word3") // (1 << 32) & 0xFFFF),
        dynamic_shared_bytes=pl.when(launch).then(pl.col("word2") // (1 << 32) & 0xFFFFFFFF),
        bytes=pl.when(size >= 0).then(size),
        copy_kind=pl.when(copy).then(
            pl.col("word3").replace_strict(_COPIES, default=None, return_dtype=pl.String)
        ),
        address=pl.when(copy | fill | (allocate & (pl.col("word0") != 0)) | (kind == "free")).then(
            "word0"
        ),
        source_address=pl.when(copy).then("word1"),
        stream_handle="word4",
        op=pl.when(collective).then(op.replace({"bcast": "broadcast"})),
        dtype=pl.when(collective).then(
            pl.col("word1").replace_strict(types, default=None, return_dtype=pl.String)
        ),
        elements=pl.when(collective & (pl.col("word0") >= 0)).then("word0"),
        peer=pl.when(op.is_in(["send", "recv"]) & collective).then("word2"),
        communicator=pl.when(collective).then("word3"),
        return_value="return_value",
    )
    names = {mangled: demangle(mangled) for mangled in set(kernels.values())}
    name = pl.col("mangled_name").replace_strict(names, default=None, return_dtype=pl.String)
    return rows.with_columns(name=name if names else pl.lit(None, pl.String))


def _name_kernels(facts: dict[str, Any]) -> dict[int, str]:
    """Mangled names by handle."""
    told = facts.get("kernels")
    found = {}
    for handle, name in told.items() if isinstance(told, dict) else ():
        if isinstance(name, str) and name and len(handle) <= 18:
            try:
                number = int(handle, 16)
            except ValueError:
                continue
            found[number - (number >> 63 << 64)] = name
    return found


# What perf_event's backend misses; each sample is a call's entry or its return.
_MISSES = {
    "samples": (
        "calls_lost",
        "samples came faster than they could be read: their calls have no row (eBPF loses less: "
        "--backend bpf)",
    ),
    "halves": ("calls_lost", "samples lack their other half: their calls have no row"),
}
# Which of them a waiting call is for; the table calls the whole device a context.
_WAITS = (("Stream", "stream"), ("Event", "event"), ("", "context"))


def _list_waits(host: pl.DataFrame) -> pl.DataFrame:
    rows = host.filter(pl.col("kind") == "wait", ~pl.col("is_nested"))
    kind = pl.lit("context")
    for part, name in _WAITS[:2]:
        kind = (
            pl.when(pl.col("name").str.contains(part, literal=True))
            .then(pl.lit(name))
            .otherwise(kind)
        )
    return rows.select("host_op_id", "pid", "start_ns", "end_ns", kind=kind)


def _list_threads(host: pl.DataFrame, facts: dict[str, Any]) -> pl.DataFrame:
    name = pl.lit(read_text(facts.get("process")), pl.String)
    return host.select("pid", "tid").unique().sort("pid", "tid").with_columns(process_name=name)


# -- what limits conclusions ----------------------------------------------------------------------


def _note_losses(found: _Read, host: pl.DataFrame, wrong: int) -> list[Quality]:
    facts, notes = found.facts, []
    totals = _list_totals(facts)
    lost = sum(sums.get("lost", 0) for sums in totals.values())
    if lost:
        share = format_pct(100 * lost / max(sum(s.get("returned", 0) for s in totals.values()), 1))
        most = max(totals, key=lambda name: totals[name].get("lost", 0))
        text = (
            f"calls came faster than they could be read and have no row: {share} of all, most of "
            f"{most} ({format_count(totals[most]['lost'])} of {totals[most].get('returned', 0):,})"
        )
        notes.append(Quality("calls_lost", "warning", text, lost))
    still = {
        name: sums.get("entered", 0) - sums.get("returned", 0) for name, sums in totals.items()
    }
    waiting = {name: count for name, count in still.items() if count > 0}
    has_gaps = isinstance(misses := facts.get("misses"), dict) and "samples" in misses
    if waiting and "finished" in facts and not has_gaps:
        names = ", ".join(sorted(waiting, key=lambda n: -waiting[n])[:3])
        text = f"calls had not returned when the probe ended, and have no row ({names})"
        notes.append(Quality("calls_open", "info", text, sum(waiting.values())))
    for what, count in misses.items() if isinstance(misses, dict) else ():
        if _number(count):
            kind, text = _MISSES.get(
                what, ("probe_tables_full", f"{what} were lost: their table was full")
            )
            notes.append(Quality(kind, "warning", text, count))
    if found.missing:
        text = "the file ends early"
        notes.append(Quality("truncated", "error", text))
    if found.damaged or wrong:
        text = "calls or blocks are malformed and were left out"
        notes.append(Quality("damaged_events", "warning", text, found.damaged + wrong))
    if found.left_out:
        text = (
            f"only the first {format_several(len(found.calls), 'call')} are read; others were left "
            "out"
        )
        remedy = "Probe for a shorter time:  sightline probe --for 10s"
        notes.append(Quality("calls_left_out", "warning", text, found.left_out, remedy))
    if "finished" not in facts and not found.missing:
        text = (
            "the probe did not end normally (killed, or still running); its last second may be lost"
        )
        notes.append(Quality("process_killed", "warning", text))
    return notes


def _note_limits(found: _Read, host: pl.DataFrame) -> list[Quality]:
    facts = found.facts
    text = (
        "calls were seen where the CPU makes them: when the GPU did the work, and for how long, "
        "is not known"
    )
    remedy = "To know it, record the program:  sightline run -- COMMAND"
    notes = [Quality("no_device_times", "info", text, None, remedy)]
    refused = [r for r in _items(facts.get("refused")) if isinstance(r, list) and len(r) == 3]
    if refused:
        names = ", ".join(str(r[1]) for r in refused[:4]) + (", ..." if len(refused) > 4 else "")
        text = f"functions were not probed, as that would cost 16 µs a call: {names}"
        notes.append(Quality("not_probed", "info", text, len(refused)))
    launches = host.filter(pl.col("kind") == "launch", ~pl.col("is_nested"))
    known = list(_name_kernels(facts))
    unnamed = launches.filter(~pl.col("word0").is_in(known)).get_column("word0").n_unique()
    if unnamed:
        text = "kernels have no name: their program was stripped, or got them before it was probed"
        notes.append(Quality("unnamed_kernels", "info", text, unnamed))
    cost, calls = _number(facts.get("call_cost_ns")), found.calls.size
    if cost and calls:
        text = (
            f"probing cost: {format_several(calls, 'call')} at {format_ns(cost)} each, "
            f"{format_ns(calls * cost)} in all threads together"
        )
        notes.append(Quality("overhead", "info", text))
    return notes


def _list_totals(facts: dict[str, Any]) -> dict[str, dict[str, int]]:
    told = facts.get("totals")
    return {
        name: {key: n for key, n in sums.items() if type(n) is int and n >= 0}
        for name, sums in (told.items() if isinstance(told, dict) else ())
        if isinstance(sums, dict)
    }


# -- values from strangers ------------------------------------------------------------------------


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < LATEST_NS else None
