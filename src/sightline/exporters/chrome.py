"""Chrome trace JSON, as the PyTorch profiler writes it: for chrome://tracing and other readers.

Times are decimal microseconds with three digits, so nothing is rounded. sightline reads the file
again with the same device operations. A run of several ranks becomes one file per rank, since the
format has no rank for an event.

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

from sightline.exporters._exporter import Exporter, put
from sightline.model.run import Run

EXPORTER = Exporter(
    name="chrome",
    label="Chrome trace JSON; a file per rank where there are several",
    suffix=".json.gz",
    loses="what the format has no place for: samples, hardware counters of kernels",
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


def write(run: Run, target: Path) -> list[Path]:
    """Write the trace; compressed if the name ends in .gz."""
    ranks = run.table("recordings").get_column("rank").unique().sort().to_list()
    if len(ranks) == 1:
        return [put(target, _file(run, ranks[0], str(target)))]
    stem = target.name.removesuffix(".gz").removesuffix(".json")
    return [
        put(target.with_name(stem) / f"rank{rank}.json.gz", _file(run, rank, ".gz"))
        for rank in ranks
    ]


def _file(run: Run, rank: int, name: str) -> bytes:
    head = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "deviceProperties": _devices(run, rank),
        "distributedInfo": {"rank": rank},
    }
    lines = ",\n".join(_events(run, rank))
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


def _line(phase: str, cat: str, name: str, pid: int, tid: int, start: int, rest: str) -> str:
    return (
        f'{{"ph":"{phase}","cat":"{cat}","name":{json.dumps(name)},"pid":{pid},"tid":{tid},'
        f'"ts":{_us(start)}{rest}}}'
    )


def _complete(length: int, args: dict[str, Any]) -> str:
    return f',"dur":{_us(length)},"args":{json.dumps(args)}'


def _events(run: Run, rank: int) -> Iterator[str]:
    here = pl.col("rank") == rank
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
        length = row["end_ns"] - row["start_ns"]
        yield _line("X", category, row["name"], *place, _complete(length, _host_args(row)))
    for row in ops.iter_rows(named=True):
        args = {there: row[c] for c, there in _NUMBERS.items() if row[c] is not None}
        for side in ("grid", "block"):
            if row[f"{side}_x"] is not None:
                args[side] = [row[f"{side}_{axis}"] for axis in "xyz"]
        if row["shared_bytes"] is None and row["static_shared_bytes"] is not None:
            args["shared memory"] = row["static_shared_bytes"] + (row["dynamic_shared_bytes"] or 0)
        args |= meaning.get(row["device_op_id"], {})
        place = (row["device_id"], row["stream_id"] or 0, row["start_ns"])
        length = row["end_ns"] - row["start_ns"]
        yield _line(
            "X", _KIND.get(row["kind"], "kernel"), row["name"], *place, _complete(length, args)
        )
        if row["launch_id"] in calls:
            number = f',"id":{row["device_op_id"] & 0xFFFFFFFF},"bp":"e"'
            yield _line("s", "ac2g", "ac2g", *calls[row["launch_id"]], number)
            yield _line("f", "ac2g", "ac2g", *place, number)
    yield from _others(run, here)


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
    for column, name in (("input_shapes", "Input Dims"), ("input_types", "Input type")):
        if row[column] is not None:
            args[name] = json.loads(row[column])
    return args


def _others(run: Run, here: pl.Expr) -> Iterator[str]:
    for row in run.table("device_ranges").filter(here).iter_rows(named=True):
        yield _line(
            "X",
            "gpu_user_annotation",
            row["name"],
            row["device_id"] or 0,
            row["stream_id"] or 0,
            row["start_ns"],
            _complete(row["end_ns"] - row["start_ns"], {}),
        )
    for row in run.table("counters").filter(here).iter_rows(named=True):
        if row["value"] is None:
            continue
        name, _, series = row["metric"].partition(": ")
        value = json.dumps({series or "value": row["value"]})
        yield _line(
            "C", "counter", name, row["device_id"] or 0, 0, row["time_ns"], f',"args":{value}'
        )
    for row in run.table("memory_events").filter(here).iter_rows(named=True):
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
        yield _line(
            "i",
            "cpu_instant_event",
            "[memory]",
            row["pid"] or 0,
            row["tid"] or 0,
            row["time_ns"],
            f',"s":"t","args":{kept}',
        )
    named = run.table("threads").filter(here).iter_rows(named=True)
    for row in named:
        for what, text in (
            ("process_name", row["process_name"]),
            ("thread_name", row["thread_name"]),
        ):
            if text:
                named_so = f',"args":{json.dumps({"name": text})}'
                yield _line("M", "__metadata", what, row["pid"], row["tid"], 0, named_so)
