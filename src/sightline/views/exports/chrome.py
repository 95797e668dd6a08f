"""Chrome trace JSON, as the PyTorch profiler writes it: for chrome://tracing and other readers.

Times are decimal microseconds with three digits, counted from `baseTimeNanoseconds`, the first
moment of the run: viewers hold them as float64, whose steps are 0.25 µs for a time since 1970, so
that one end would move past another. sightline reads the file again with the same device
operations. A run of several ranks becomes one file per rank, since the format has no rank for an
event.

A viewer nests slices by time and drops one that crosses another in its row. So slices come in order
of time, the outer before the inner, and operations of a stream that overlap get rows of their own.

Format: the Trace Event Format; names of categories and arguments as Kineto writes them
(pytorch/kineto, libkineto/src/output_json.cpp).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="chrome",
    label="Chrome trace JSON; a file per rank where there are several",
    suffix=".json.gz",
    loses="samples, hardware counters of kernels; viewers drop host ranges that cross another",
)

_CATEGORY = {
    "op": "cpu_op",
    "annotation": "user_annotation",
    "step": "user_annotation",
    "python": "python_function",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "overhead": "overhead",
}
_KIND = {"kernel": "kernel", "graph": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
_NUMBERS = {
    "device_id": "device",
    "context_id": "context",
    "stream_id": "stream",
    "correlation_id": "correlation",
    "registers_per_thread": "registers per thread",
    "shared_bytes": "shared memory",
    "bytes": "bytes",
    "graph_id": "graph id",
    "graph_node_id": "graph node id",
}
_MEANING = {
    "op": "Collective name",
    "group": "Process Group Name",
    "group_description": "Process Group Description",
    "group_size": "Group size",
    "dtype": "dtype",
    "elements_in": "In msg nelems",
    "elements_out": "Out msg nelems",
}


# Rows of a stream's overlapping operations have its number plus so much for each.
LANE = 1_000_000
Event = tuple[int, int, str]


def write(run: Run, target: Path) -> list[Path]:
    """Write the trace; compressed if the name ends in .gz."""
    base = _first_moment(run)
    ranks = run.table("recordings").get_column("rank").unique().sort().to_list()
    if len(ranks) == 1:
        return [put(target, _file(run, ranks[0], base, str(target)))]
    stem = target.name.removesuffix(".gz").removesuffix(".json")
    return [
        put(target.with_name(stem) / f"rank{rank}.json.gz", _file(run, rank, base, ".gz"))
        for rank in ranks
    ]


def _file(run: Run, rank: int, base: int, name: str) -> bytes:
    head = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "deviceProperties": _devices(run, rank),
        "distributedInfo": {"rank": rank},
        "baseTimeNanoseconds": base,
    }
    # Python's sort is stable: at one moment the outer of two ranges stays before the inner.
    events = sorted(_events(run, rank, base), key=lambda event: event[:2])
    lines = ",\n".join(event[2] for event in events)
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + lines + "\n]}\n"
    return gzip.compress(text.encode(), 6, mtime=0) if name.endswith(".gz") else text.encode()


def _devices(run: Run, rank: int) -> list[dict[str, Any]]:
    rows = run.table("devices").filter(pl.col("rank") == rank)
    names = {
        "device_id": "id",
        "name": "name",
        "memory_bytes": "totalGlobalMem",
        "sm_count": "numSms",
        "warp_size": "warpSize",
    }
    return [
        {there: row[here] for here, there in names.items() if row[here] is not None}
        for row in rows.iter_rows(named=True)
    ]


def _us(ns: int) -> str:
    """Microseconds with three decimals: exact, and written as digits, not as a float."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _first_moment(run: Run) -> int:
    """The earliest time of the run, in ns: what all times are counted from."""
    times = [
        run.table(table).get_column(column).min()
        for table, column in (
            ("device_ops", "start_ns"),
            ("host_ops", "start_ns"),
            ("device_ranges", "start_ns"),
            ("counters", "time_ns"),
            ("memory_events", "time_ns"),
        )
    ]
    known = [t for t in times if isinstance(t, int)]
    return min(known, default=0)


class _Lines:
    """Writes events as (start, minus length, text): so sorted, outer slices are before inner."""

    def __init__(self, base: int) -> None:
        self.base = base

    def event(
        self, phase: str, cat: str, name: str, place: tuple[int, int, int], rest: str
    ) -> Event:
        """An event at (pid, tid, ns); `rest` are its other fields as JSON."""
        pid, tid, start = place
        text = (
            f'{{"ph":"{phase}","cat":"{cat}","name":{json.dumps(name)},"pid":{pid},"tid":{tid},'
            f'"ts":{_us(start - self.base)}{rest}}}'
        )
        return start, 0, text

    def slice(
        self, cat: str, name: str, place: tuple[int, int, int], end: int, args: dict[str, Any]
    ) -> Event:
        """A complete event from its place to `end`."""
        length = end - place[2]
        rest = f',"dur":{_us(length)},"args":{json.dumps(args)}'
        return place[2], -length, self.event("X", cat, name, place, rest)[2]

    def name(self, what: str, pid: int, tid: int, args: dict[str, Any]) -> Event:
        """The name, or another fact, of a process or a thread."""
        rest = f',"args":{json.dumps(args)}'
        return self.event("M", "__metadata", what, (pid, tid, self.base), rest)


def _events(run: Run, rank: int, base: int) -> Iterator[Event]:
    here = pl.col("rank") == rank
    lines = _Lines(base)
    meaning = {
        row["device_op_id"]: {there: row[c] for c, there in _MEANING.items() if row[c] is not None}
        for row in run.table("collectives").filter(here).iter_rows(named=True)
    }
    calls: dict[int, tuple[int, int, int]] = {}
    ops = run.table("device_ops").filter(here)
    launching = set(ops.get_column("launch_id").drop_nulls().to_list())
    for row in run.table("host_ops").filter(here).iter_rows(named=True):
        place = (row["pid"] or 0, row["tid"] or 0, row["start_ns"])
        if row["host_op_id"] in launching:
            calls[row["host_op_id"]] = place
        category = _CATEGORY.get(row["layer"], row["layer"])
        yield lines.slice(category, row["name"], place, row["end_ns"], _host_args(row))
    lanes = _lanes(ops, run.table("device_ranges").filter(here))
    for row in ops.iter_rows(named=True):
        args = {there: row[c] for c, there in _NUMBERS.items() if row[c] is not None}
        for side in ("grid", "block"):
            if row[f"{side}_x"] is not None:
                args[side] = [row[f"{side}_{axis}"] for axis in "xyz"]
        if row["shared_bytes"] is None and row["static_shared_bytes"] is not None:
            args["shared memory"] = row["static_shared_bytes"] + (row["dynamic_shared_bytes"] or 0)
        args |= meaning.get(row["device_op_id"], {})
        tid = (row["stream_id"] or 0) + LANE * lanes.get(row["device_op_id"], 0)
        place = (row["device_id"], tid, row["start_ns"])
        category = _KIND.get(row["kind"], "kernel")
        if row["copy_kind"] is not None and row["copy_kind"] not in row["name"]:
            args["kind"] = row["copy_kind"]
        yield lines.slice(category, row["name"], place, row["end_ns"], args)
        if row["launch_id"] in calls:
            number = f',"id":{row["device_op_id"] & 0xFFFFFFFF},"bp":"e"'
            yield lines.event("s", "ac2g", "ac2g", calls[row["launch_id"]], number)
            yield lines.event("f", "ac2g", "ac2g", place, number)
    yield from _others(run, here, lines)
    yield from _names(run, rank, ops, lanes, lines)


def _lanes(ops: pl.DataFrame, ranges: pl.DataFrame) -> dict[int, int]:
    """The operations that cross another slice of their stream, each with a row beside it, from 1.

    Ranges of annotations stay in the stream's own row, since their row is all that names it.
    """
    both = pl.concat(
        [
            ops.select("device_id", "stream_id", "start_ns", "end_ns", op="device_op_id"),
            ranges.select(
                "device_id", "stream_id", "start_ns", "end_ns", op=pl.lit(None, pl.Int64)
            ),
        ],
        how="vertical_relaxed",
    ).with_columns(pl.col("device_id", "stream_id").fill_null(0))
    lanes: dict[int, int] = {}
    open_until: dict[tuple[int, int, int], list[int]] = {}
    # At one moment the longer comes first, and of equal ones the range around the operation.
    order = both.sort("start_ns", "end_ns", "op", descending=[False, True, False], nulls_last=False)
    for device, stream, start, end, op in order.iter_rows():
        lane = 0
        while True:
            ends = open_until.setdefault((device, stream, lane), [])
            while ends and ends[-1] <= start:
                ends.pop()
            if op is None or not ends or end <= ends[-1]:
                break
            lane += 1
        ends.append(end)
        if lane:
            lanes[op] = lane
    return lanes


def _names(
    run: Run, rank: int, ops: pl.DataFrame, lanes: dict[int, int], lines: _Lines
) -> Iterator[Event]:
    """What viewers call processes and threads: those of the host, and each device's streams."""
    here = pl.col("rank") == rank
    for row in run.table("threads").filter(here).iter_rows(named=True):
        for what in ("process_name", "thread_name"):
            if row[what]:
                yield lines.name(what, row["pid"], row["tid"], {"name": row[what]})
    devices = run.table("devices").filter(here)
    known = dict(devices.select("device_id", "name").iter_rows())
    for device in ops.get_column("device_id").unique().sort().to_list():
        # The number first: a trace without names is told apart by it.
        called = f"GPU {device}" + (f" {known[device]}" if known.get(device) else "")
        yield lines.name("process_name", device, 0, {"name": called})
        yield lines.name("process_labels", device, 0, {"labels": f"GPU {device}"})
        yield lines.name("process_sort_index", device, 0, {"sort_index": 5_000_000 + device})
    rows = ops.select(
        "device_id",
        pl.col("stream_id").fill_null(0),
        lane=pl.col("device_op_id").replace_strict(lanes, default=0, return_dtype=pl.Int64),
    )
    for device, stream, lane in rows.unique().sort("device_id", "stream_id", "lane").iter_rows():
        called = f"stream {stream}" + (" (overlapping)" if lane else "")
        yield lines.name("thread_name", device, stream + LANE * lane, {"name": called})


def _host_args(row: dict[str, Any]) -> dict[str, Any]:
    args: dict[str, Any] = {}
    for column, name in (
        ("correlation_id", "correlation"),
        ("sequence_id", "Sequence number"),
        ("python_id", "Python id"),
        ("python_parent_id", "Python parent id"),
        ("module_id", "Python module id"),
        ("stack", "Call stack"),
    ):
        if row[column] is not None:
            args[name] = row[column]
    for column, name in (
        ("input_shapes", "Input Dims"),
        ("input_types", "Input type"),
        ("input_strides", "Input Strides"),
        ("input_values", "Concrete Inputs"),
    ):
        if row[column] is not None:
            args[name] = json.loads(row[column])
    return args


def _others(run: Run, here: pl.Expr, lines: _Lines) -> Iterator[Event]:
    for row in run.table("device_ranges").filter(here).iter_rows(named=True):
        place = (row["device_id"] or 0, row["stream_id"] or 0, row["start_ns"])
        yield lines.slice("gpu_user_annotation", row["name"], place, row["end_ns"], {})
    for row in run.table("counters").filter(here).iter_rows(named=True):
        if row["value"] is None:
            continue
        name, _, series = row["metric"].partition(": ")
        value = json.dumps({series or "value": row["value"]})
        place = (row["device_id"] or 0, 0, row["time_ns"])
        yield lines.event("C", "counter", name, place, f',"args":{value}')
    moved = pl.col("action").is_in(["alloc", "free"])
    for row in run.table("memory_events").filter(here & moved).iter_rows(named=True):
        sign = -1 if row["action"] == "free" else 1
        args = {
            "Device Type": 0 if row["device_id"] is None else 1,
            "Device Id": -1 if row["device_id"] is None else row["device_id"],
            "Addr": row["address"],
            "Bytes": sign * (row["bytes"] or 0),
            "Total Allocated": row["allocated_bytes"],
            "Total Reserved": row["reserved_bytes"],
        }
        kept = json.dumps({k: v for k, v in args.items() if v is not None})
        place = (row["pid"] or 0, row["tid"] or 0, row["time_ns"])
        yield lines.event("i", "cpu_instant_event", "[memory]", place, f',"s":"t","args":{kept}')
