"""What NCCL's Inspector plugin writes: a JSON object for each collective of a process.

`coll_sn` counts a communicator's collectives, which matches them across ranks. Where the plugin was
verbose (NCCL_INSPECTOR_DUMP_VERBOSE=1), kernels say when they ran, by the GPU's or the CPU's clock
as `coll_timing_source` tells; else a collective is taken to have ended when its line was written,
which is later. A process may be of several communicators, in each of which it has another rank:
it is taken to be the rank that it has in the largest.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._json import list_documents
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="nccl_inspector",
    label="NCCL Inspector (JSON)",
    strong=(rb'"inspector_output_format_version"', rb'"coll_perf"\s*:\s*\{\s*"coll"'),
    weak=(),
    looks_like="JSON objects with 'inspector_output_format_version' and 'coll_perf'",
    suffixes=(".log", ".json", ".jsonl"),
    version=2,
    source="https://github.com/NVIDIA/nccl/tree/master/plugins/profiler/inspector",
)

_US = 1000


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all objects that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    rows, bad = [], 0
    for found in list_documents(read_text(source, quality)):
        row = _read_object(found) if isinstance(found, dict) else None
        bad += row is None
        if row is not None:
            rows.append(row)
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete collective")
    frame = pl.DataFrame(rows, infer_schema_length=None).with_row_index("device_op_id")
    guessed = frame.filter(~pl.col("is_timed")).height
    if guessed:
        text = "collectives have no times of their own: they end when their lines were written"
        remedy = "NCCL_INSPECTOR_DUMP_VERBOSE=1"
        quality.append(Quality("no_kernel_times", "warning", text, guessed, remedy))
    quality += note_bad_lines(bad, "collectives of NCCL's Inspector")
    largest = max(rows, key=lambda row: (row["group_size"], row["group"]))
    # Each communicator works on its own: what it does is in order.
    device = frame.select(
        "device_op_id",
        "start_ns",
        "end_ns",
        device_id=pl.lit(0, pl.Int64),
        stream_id=pl.col("group").rank("dense").cast(pl.Int64) - 1,
        kind=pl.lit("kernel"),
        name="ncclDevKernel_" + pl.col("op"),
    )
    known = ("device_op_id", "op", "group", "group_size", "sequence")
    collectives = frame.select(*known, bytes_in="bytes", bytes_out="bytes")
    recording = Recording(
        tool="NCCL Inspector",
        tool_version=largest["version"],
        rank=largest["rank"],
        world_size=largest["group_size"],
        clock_offset_ns=0,
    )
    return Imported({"device_ops": device, "collectives": collectives}, recording, quality)


def _find_whole_size(told: dict[str, Any], ranks: int) -> int:
    """Bytes of the whole array: the message of some kinds is one rank's share of it.

    Of which, the bandwidth beside it says: NCCL's own example has a reduce-scatter over 8 ranks
    with 8 times its message over its time.
    """
    size, time = int(told["coll_msg_size_bytes"]), int(told["coll_exec_time_us"])
    moved = float(told.get("coll_algobw_gbs") or 0) * time * 1000  # GB/s × µs = kB
    return size * ranks if abs(moved - size * ranks) < abs(moved - size) else size


def _read_object(found: dict[str, Any]) -> dict[str, Any] | None:
    """A collective; None where it lacks what it is, or when it was."""
    try:
        head, about, told = found["header"], found["metadata"], found["coll_perf"]
        length = int(told["coll_exec_time_us"]) * _US
        end, is_timed = int(about["dump_timestamp_us"]) * _US, False
        kernels = (told.get("event_trace_ts") or {}).get("kernel_events") or ()
        starts = [int(k["kernel_start_ts"]) for k in kernels if k.get("kernel_start_ts")]
        if starts:
            end, is_timed = min(starts) * _US + length, True
        row = {
            "op": replace_surrogates(str(told["coll"])),
            "group": replace_surrogates(str(head["id"])),
            "group_size": int(head["n_ranks"]),
            "sequence": int(told["coll_sn"]),
            "bytes": _find_whole_size(told, int(head["n_ranks"])),
            "rank": int(head["rank"]),
            "version": str(about["inspector_output_format_version"]),
            "start_ns": end - length,
            "end_ns": end,
            "is_timed": is_timed,
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    numbers = [value for value in row.values() if isinstance(value, int)]
    return row if all(0 <= number <= INT64_MAX for number in numbers) else None
