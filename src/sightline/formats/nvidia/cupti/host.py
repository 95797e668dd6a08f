"""What the host did: API calls, NVTX ranges, and what CUDA and CUPTI cost on its threads."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import find_first_rows
from sightline.core.algebra.nesting import nest_ranges
from sightline.formats.nvidia.cupti import codes
from sightline.formats.nvidia.cupti.codes import decode_codes, keep_known
from sightline.formats.nvidia.cupti.device import TIME_LIMIT
from sightline.formats.nvidia.cupti.file import CuptiFile
from sightline.timeline.api_calls import RUNTIME_VERSION

# nvToolsExt.h, nvtxPayloadType_t: unsigned and signed 64 bits, double, the same of 32 bits.
_PAYLOADS = {1: "<Q", 2: "<q", 3: "<d", 4: "<I", 5: "<i", 6: "<f"}
_RANGE_KINDS = {1: "pushpop", 2: "startend", 3: "mark"}  # tables.cpp
_LOOKUP = "Name of a kernel (Profiler)"  # as CUPTI's own kinds of overhead are called
_TORCH_STEP = "ProfilerStep#"  # torch.profiler's own name of a step, as emit_nvtx passes it on
_EMPTY = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "pid": pl.Int64, "tid": pl.Int64,
    "layer": pl.String, "name": pl.String, "correlation_id": pl.Int64, "range_kind": pl.String,
}  # fmt: skip


def list_host_ops(file: CuptiFile) -> tuple[pl.DataFrame, int]:
    """Rows of `host_ops`, nested; and how many calls had not ended when they were handed over."""
    calls = [
        _calls(file, "runtime_calls", "runtime", codes.RUNTIME),
        _calls(file, "driver_calls", "driver", codes.DRIVER),
    ]
    parts = [
        _set_lookups_apart(pl.concat(calls, how="diagonal_relaxed")),
        _overhead(file),
        _ranges(file),
        *_host_functions(file),
    ]
    ops = pl.concat([pl.DataFrame(schema=_EMPTY), *parts], how="diagonal_relaxed")
    is_timed = pl.col("start_ns").is_between(1, TIME_LIMIT) & pl.col("end_ns").is_between(
        pl.col("start_ns"), TIME_LIMIT
    )
    kept = ops.filter(is_timed).with_columns(pid=pl.lit(file.pid, pl.Int64))
    kept = _add_external(kept, file)
    # Ranges of a process end on whatever thread, and overlap.
    nested = nest_ranges(kept, apart=pl.col("range_kind") == "startend")
    return nested, ops.height - kept.height


def _calls(file: CuptiFile, table: str, layer: str, domain: int) -> pl.DataFrame:
    frame = file.frame(table)
    if frame.is_empty():
        return pl.DataFrame()
    known = file.frame("call_names").filter(pl.col("domain") == domain)
    # CUPTI appends the version in which a call took its form (cudaLaunchKernel_v7000); a _v2 or _v3
    # is part of a driver call's own name.
    own = pl.col("name").str.replace(f"{RUNTIME_VERSION}$", "")
    names = dict(known.select("cbid", own).iter_rows())
    return frame.select(
        start_ns="start",
        end_ns="end",
        tid="tid",
        layer=pl.lit(layer),
        name=pl.col("cbid")
        .replace_strict(names, default=None, return_dtype=pl.String)
        .fill_null("unknown call"),
        correlation_id=keep_known("correlation"),
        return_value="result",
    )


def _set_lookups_apart(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, with those that recording causes as overhead: lookups of a kernel's name.

    Before a launch that somebody is told of, the CUDA runtime asks the driver for the kernel's name
    (CUpti_CallbackData.symbolName): each of 10,200 launches on an H100 has one, 0.1 µs before it,
    and Nsight Systems' recordings have them, too. Unrecorded there are none.
    """
    if calls.is_empty():
        return calls
    ordered = calls.sort("tid", "start_ns", maintain_order=True)
    then = {name: pl.col(name).shift(-1) for name in ("tid", "layer", "name", "start_ns")}
    is_lookup = (
        (pl.col("layer") == "driver")
        & (pl.col("name") == "cuKernelGetName")
        & (then["tid"] == pl.col("tid"))
        & (then["layer"] == "runtime")
        & then["name"].str.starts_with("cudaLaunch")
        & (then["start_ns"] >= pl.col("end_ns"))
    ).fill_null(False)
    overhead = {"layer": "overhead", "name": _LOOKUP, "category": _LOOKUP}
    return ordered.with_columns(is_lookup=is_lookup, category=pl.lit(None, pl.String)).select(
        pl.exclude("is_lookup", *overhead),
        *(
            pl.when("is_lookup").then(pl.lit(text)).otherwise(name).alias(name)
            for name, text in overhead.items()
        ),
    )


def _host_functions(file: CuptiFile) -> Iterator[pl.DataFrame]:
    """What the CPU did because a stream or a graph had come to it: the device waited meanwhile."""
    for table, name in (
        ("host_functions", pl.lit("host function of a stream")),
        ("graph_host_nodes", pl.format("host node of CUDA graph {}", "graph")),
    ):
        frame = file.frame(table)
        if frame.height:
            yield frame.select(
                start_ns="start",
                end_ns="end",
                tid=keep_known("tid"),
                layer=pl.lit("other"),
                name=name,
                correlation_id=keep_known("correlation"),
            )


def _add_external(ops: pl.DataFrame, file: CuptiFile) -> pl.DataFrame:
    """Calls with the number that another tool had pushed (cuptiActivityPushExternalCorrelationId).

    A call may have one of each kind of tool; the kind of the smallest number is taken, which is
    what the tool itself pushes by default (CUpti_ExternalCorrelationKind).
    """
    external = file.frame("external").filter(pl.col("correlation") > 0)
    if external.is_empty():
        return ops
    numbers = external.sort("kind", maintain_order=True).unique("correlation", keep="first")
    numbers = numbers.select(correlation_id="correlation", external_id="external")
    joined = ops.join(numbers, on="correlation_id", how="left", maintain_order="left")
    is_call = pl.col("layer").is_in(["runtime", "driver"])
    return joined.with_columns(external_id=pl.when(is_call).then("external_id"))


def _overhead(file: CuptiFile) -> pl.DataFrame:
    frame = file.frame("overhead")
    if frame.is_empty():
        return pl.DataFrame()
    kind = decode_codes("kind", codes.OVERHEAD_KINDS).fill_null("Unknown")
    # In user-defined records the object's kind is not told, and the thread is 0 where it is none.
    is_thread = pl.col("object_kind").is_in([0, codes.OBJECT_THREAD]) & (pl.col("tid") > 0)
    return frame.select(
        start_ns="start",
        end_ns="end",
        tid=pl.when(is_thread).then("tid"),
        layer=pl.lit("overhead"),
        name=kind,
        category=kind,
        correlation_id=keep_known("correlation"),
    )


def _ranges(file: CuptiFile) -> pl.DataFrame:
    """NVTX ranges and marks; one that never ended ends with the recording."""
    frame = file.frame("ranges")
    if frame.is_empty():
        return pl.DataFrame()
    ends = [file.frame(t).select(pl.max("end")).item() for t in ("ranges", "kernels", "windows")]
    last = max(end for end in (*ends, 0) if end is not None)
    name = pl.col("name").fill_null("")
    kind = pl.col("kind")
    payload = _read_payload()
    return frame.select(
        start_ns="start",
        end_ns=pl.when(pl.col("end") > 0)
        .then("end")
        .otherwise(pl.max_horizontal("start", pl.lit(last, pl.Int64))),
        tid="tid",
        end_tid=pl.when(kind == 2).then("end_tid"),
        layer=pl.when(name.str.starts_with(_TORCH_STEP))
        .then(pl.lit("step"))
        .otherwise(pl.lit("annotation")),
        name=name,
        range_kind=kind.replace_strict(_RANGE_KINDS, default=None, return_dtype=pl.String),
        domain="domain",
        category="category",
        payload=payload,
    )


def _read_payload() -> pl.Expr:
    """The number that a range carries, as JSON; its type says how its 64 bits are meant."""
    value, kind = pl.col("payload"), pl.col("payload_type")

    def decode(row: dict[str, int]) -> str | None:
        layout = _PAYLOADS.get(row["payload_type"])
        if layout is None:
            return None
        data = (row["payload"] & (1 << 64) - 1).to_bytes(8, "little")
        (number,) = struct.unpack_from(layout, data)
        return json.dumps(number) if math.isfinite(number) else None

    is_set = pl.when(kind > 0).then(pl.struct(payload=value, payload_type=kind))
    return is_set.map_elements(decode, return_dtype=pl.String, skip_nulls=True)


def count_open_ranges(file: CuptiFile) -> int:
    """Ranges that the program had not ended."""
    return file.frame("ranges").filter((pl.col("end") == 0) & (pl.col("start") > 0)).height


def add_call(frame: pl.DataFrame, host: pl.DataFrame, column: str) -> pl.DataFrame:
    """The frame with the id of the outermost call that has its correlation id."""
    if frame.is_empty():
        return frame
    calls = host.filter(pl.col("layer").is_in(["runtime", "driver"]))
    rows = find_first_rows(
        calls.select("correlation_id"), frame.select("correlation_id"), "correlation_id", ()
    )
    return frame.with_columns(calls.get_column("host_op_id").gather(rows).alias(column))
