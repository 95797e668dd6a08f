"""Turns what the compiled reader holds into the declared tables. Nothing here runs per event."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from sightline.core.algebra.arrow import unpack_apart, unpack_columns
from sightline.core.model import parts
from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording, Whole
from sightline.core.units import INT64_MAX
from sightline.formats.pytorch.kineto import quality as checks
from sightline.formats.pytorch.kineto import tracks
from sightline.timeline.classes import is_communication

if TYPE_CHECKING:
    from sightline._native import Batch, Counted, Facts, Trace

_MADE = ("host_ops", "device_ops", "device_ranges", "syncs", "memory_events", "counters")
# The releases of 2021 write steps as operators.
_STEP = {
    "annotation": re.compile(r"(?:ProfilerStep|Iteration)[#\s]*\d+"),
    "op": re.compile(r"ProfilerStep#\d+"),
}
_COPY_NAME = re.compile(r"(HtoD|DtoH|DtoD|HtoH|PtoP|AtoH|HtoA|AtoD|DtoA)", re.IGNORECASE)
_COPY_WORDS = re.compile(r"(Host|Device)To(Host|Device)")
_MEMORY_KINDS = re.compile(r"\((\w+) -> (\w+)\)")
# Processes of hardware counters, as native/kineto numbers texts that do not end in a number.
_COUNTER_PROCESSES = {zlib.crc32(b"GPU %d Counters" % gpu): gpu for gpu in range(1024)}
# Bytes of an element, for the dtype names of c10 (c10/core/ScalarType.h) that collectives use.
_ELEMENT_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "short": 2, "int": 4, "long": 8, "half": 2, "float": 4,
    "double": 8, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
_ELEMENT = (
    pl.col("dtype")
    .str.to_lowercase()
    .replace_strict(_ELEMENT_BYTES, default=None, return_dtype=pl.Int64)
)


def build_tables(
    trace: Trace,
    counted: Counted,
    header: dict[str, Any],
    notes: list[Quality],
    options: ImportOptions,
) -> Imported:
    """The tables of one trace, with ids from 0, and the facts on the recording."""
    base = _base_ns(header)
    # The code of a text is its place here, counted from 1.
    texts = unpack_columns(trace.texts()).with_row_index("code", offset=1)
    trace.finish(base, *_list_steps(texts))
    copies = texts.filter(pl.col("code").is_in(trace.copies())).rows()
    trace.write({code: _copy(pair) for code, pair in copies})
    facts = trace.facts()
    apart = _split_tracks(trace, counted, facts, texts)
    recording = _recording(counted, facts, header, base, options)
    imported = Imported(
        {
            "collectives": _collectives(trace, texts),
            "devices": _devices(header, facts["devices"], _name_kind(counted)),
            "threads": _threads(counted, facts),
        },
        recording,
        [
            *notes,
            *checks.check_quality(
                counted,
                facts,
                recording.tool,
                has_launches=_has_launches(texts),
                is_empty=_is_empty(texts),
            ),
        ],
    )
    imported.tables.update(apart)
    for name in _MADE:
        if name in apart:
            continue
        rows = trace.rows(name)
        if rows <= parts.ROWS_AT_ONCE:
            imported.tables[name] = _part(unpack_columns, trace, name, 0, rows)
        else:
            make = partial(_part, unpack_columns, trace, name)
            imported.large[name] = parts.make_in_parts(rows, make)
            imported.whole[name] = Whole(rows, partial(_part, unpack_apart, trace, name, 0, rows))
    return imported


# What operators and modules are called.
_WORKS = r"^(?:aten|autograd|torch|c10d?|nccl|triton)\b|::|^nn\.Module"


def _has_launches(texts: pl.DataFrame) -> bool:
    """Whether calls that launch work are among a trace's names."""
    return bool(texts.get_column("text").str.contains(r"^(?:cu|cuda|hip)\w*Launch\w*Kernel").any())


def _is_empty(texts: pl.DataFrame) -> bool:
    """Whether a device was asked for, by calls of its runtime, and nothing works on either side.

    With Python's stacks a profiler whose schedule never became active records how it ends itself.
    """
    names = texts.get_column("text").str
    if not names.contains(r"^(?:cuda|hip)[A-Z]").any():
        return False
    works, is_own_end = names.contains(_WORKS), names.ends_with(": stop_trace")
    if not is_own_end.any() or not names.contains(r"profiler\.py\(\d+\): stop_trace$").any():
        return not (works.any() or names.contains(r"\.py\(\d").any())
    return not (works & ~names.contains(r"\.py\(\d")).any()


def _split_tracks(
    trace: Trace, counted: Counted, facts: Facts, texts: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """The tables of a trace that tells its devices by names alone; `facts` become those of them."""
    if facts["device_rows"]:
        return {}
    found = tracks.find_tracks(facts["threads"], counted["process_names"], counted["thread_names"])
    if not found and not tracks.names_copies(texts.get_column("text")):
        return {}
    hosts = _part(unpack_columns, trace, "host_ops", 0, trace.rows("host_ops"))
    found = found or tracks.find_named_tracks(hosts)
    if not found:
        return {}
    names = counted["process_names"], counted["thread_names"]
    apart = tracks.split_tracks(hosts, found, *names)._asdict()
    ops = apart["device_ops"]
    taken = {(track.pid, track.tid) for track in found}
    facts["host_rows"], facts["device_rows"] = apart["host_ops"].height, ops.height
    facts["zero_durations"] = ops.filter(pl.col("start_ns") == pl.col("end_ns")).height
    facts["whole_us"] = False
    facts["devices"] = sorted(ops.get_column("device_id").unique())
    facts["threads"] = [thread for thread in facts["threads"] if thread not in taken]
    return apart


def _part(
    unpack: Callable[[Batch], pl.DataFrame], trace: Trace, name: str, start: int, count: int
) -> pl.DataFrame:
    part = unpack(trace.take(name, start, count))
    if not part.height:
        return part
    if name == "host_ops" and "name" in part.columns:
        part = part.with_columns(name=_restore_paths())
    return _name_counters(part) if name == "counters" else part


def _restore_paths() -> pl.Expr:
    """Names of Python's calls with the backslashes that a path of Windows took for escapes.

    Kineto writes `torch\\nn\\functional.py(5): relu` with single backslashes: a line break and a
    form feed, which no name of a call holds.
    """
    name, controls = (
        pl.col("name"),
        {"\n": "\\n", "\f": "\\f", "\r": "\\r", "\t": "\\t", "\b": "\\b"},
    )
    is_path = (pl.col("layer") == "python") & name.str.contains(r"[\n\f\r\t\x08]")
    return pl.when(is_path).then(name.str.replace_many(controls)).otherwise(name)


def _name_counters(counters: pl.DataFrame) -> pl.DataFrame:
    """Hardware counters by GPU and unit.

    Since 2.13 their process is a text, "GPU 3 Counters", of which the reader keeps the CRC, and the
    value's key is empty: "Power (W)" is all that names them.
    """
    if "device_id" not in counters.columns:  # a column without a value is not taken
        counters = counters.with_columns(device_id=pl.lit(None, pl.Int64))
    unit = r" \(([^()]+)\)$"
    plain = pl.col("metric").str.strip_suffix(": ")
    is_hardware = pl.col("metric").str.ends_with(": ")
    named = pl.col("device_id").replace_strict(
        _COUNTER_PROCESSES, default=None, return_dtype=pl.Int64
    )
    return counters.with_columns(
        metric=pl.when(is_hardware).then(plain.str.replace(unit, "")).otherwise("metric"),
        unit=pl.when(is_hardware).then(plain.str.extract(unit, 1)),
        device_id=pl.coalesce(named, "device_id"),
    )


def _base_ns(header: dict[str, Any]) -> int:
    base = header.get("baseTimeNanoseconds")
    # Half the range, so that base plus any time of the file still fits.
    return base if type(base) is int and 0 <= base < INT64_MAX // 2 else 0


def _list_steps(texts: pl.DataFrame) -> tuple[list[int], list[int]]:
    """Codes of the names that mark a step, as an annotation and as an operator."""
    likely = texts.filter(
        pl.col("text").str.starts_with("ProfilerStep") | pl.col("text").str.starts_with("Iteration")
    ).rows()
    annotations, ops = (
        [code for code, text in likely if _STEP[layer].match(text)]
        for layer in ("annotation", "op")
    )
    return annotations, ops


def _copy(pair: str) -> tuple[str, str, str]:
    """Direction and memory kinds, from 'Memcpy HtoD (Pageable -> Device)' or AMD's kind text."""
    name, _, words = pair.rpartition("\x1f")
    direction = ""
    found = _COPY_NAME.search(name) or _COPY_NAME.fullmatch(words)
    if found is not None:
        direction = f"{found[1][0].upper()}to{found[1][-1].upper()}"
    else:
        in_words = _COPY_WORDS.search(f"{name} {words}")
        if in_words is not None:
            direction = f"{in_words[1][0]}to{in_words[2][0]}"
    kinds = _MEMORY_KINDS.search(name)
    if kinds is None:
        return direction, "", ""
    return direction, kinds[1].lower(), kinds[2].lower()


def _collectives(trace: Trace, texts: pl.DataFrame) -> pl.DataFrame:
    """Meaning of communication kernels: from the kernel itself, else from the op that launched it.

    The op (record_param_comms) is an ancestor of the launch call: the nearest one before it in
    preorder whose subtree holds the call.
    """
    rows = trace.rows("collectives")
    found = unpack_columns(trace.take("collectives", 0, rows))
    if not rows:  # no kernel has a meaning, and no op that one could inherit
        return (
            found.clear()
            .drop("host_op_id", "subtree_end_id")
            .with_columns(
                pl.lit(None, pl.List(pl.Int64)).alias("group_ranks"),
                pl.lit(None, pl.Int64).alias("bytes_in"),
                pl.lit(None, pl.Int64).alias("bytes_out"),
            )
        )
    ranks = found.get_column("group_ranks").drop_nulls().unique().to_list()
    listed = pl.DataFrame(
        {"group_ranks": ranks, "_ranks": [_ranks(text) for text in ranks]},
        schema={"group_ranks": pl.String, "_ranks": pl.List(pl.Int64)},
    )
    found = (
        found.join(listed, on="group_ranks", how="left", maintain_order="left")
        .with_columns(group_ranks="_ranks")
        .drop("_ranks")
    )
    direct = found.filter(pl.col("device_op_id").is_not_null()).drop("host_op_id", "subtree_end_id")
    names = texts.filter(is_communication(pl.col("text"))).get_column("code").to_list()
    launches = unpack_columns(trace.launches_of(names))
    bare = launches.join(direct, on="device_op_id", how="anti")
    inherited = [_inherit(bare, found, direct.columns)] if bare.height else []
    return (
        pl.concat([direct, *inherited])
        .sort("device_op_id")
        .with_columns(
            bytes_in=pl.col("elements_in") * _ELEMENT, bytes_out=pl.col("elements_out") * _ELEMENT
        )
    )


def _inherit(bare: pl.DataFrame, found: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """What the operators say of communication kernels that say nothing themselves."""
    ops = (
        found.filter(pl.col("host_op_id").is_not_null())
        .drop("device_op_id")
        .filter(~pl.col("op").is_in(["wait", "init", "barrier_wait"]))
        .sort("host_op_id")
    )
    bare = bare.sort("launch_id", "device_op_id")
    return (
        bare.join_asof(ops, left_on="launch_id", right_on="host_op_id", check_sortedness=False)
        .filter(pl.col("launch_id") < pl.col("subtree_end_id"))
        .select(columns)
    )


def _ranks(text: str) -> list[int | None] | None:
    try:
        ranks = json.loads(text, parse_float=str, parse_constant=str, strict=False)
    except ValueError:
        return None
    return [_int(r) for r in ranks] if isinstance(ranks, list) else None


def _int(value: Any) -> int | None:
    """An integer that fits int64, from an int or a decimal text; else None."""
    if type(value) is int:
        return value if -INT64_MAX <= value <= INT64_MAX else None
    if isinstance(value, str):
        digits = value[1:] if value[:1] == "-" else value
        if digits.isascii() and digits.isdigit() and len(digits) < 19:
            return int(value)
    return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _name_kind(counted: Counted) -> dict[str, Any]:
    """Vendor and name of devices that are no GPUs, where categories or processes say it."""
    if counted["has_mtia"]:
        return {"vendor": "meta", "name": "MTIA"}
    if counted["has_hpu"]:
        return {"vendor": "habana", "name": "HPU"}
    told = tracks.name_devices(counted["process_names"])
    return {} if told is None else {"vendor": told[0], "name": told[1]}


def _devices(header: dict[str, Any], used: list[int], kind: dict[str, Any]) -> pl.DataFrame:
    """Devices that the header describes, and those that only appear in the timeline."""
    # PyTorch 1.8 to 1.10 wrote cudaDeviceProp's own names, under another key.
    listed = header.get("deviceProperties", header.get("computeProperties"))
    found: dict[int, dict[str, Any]] = {}
    for entry in listed if isinstance(listed, list) else []:
        number = _int(entry.get("id")) if isinstance(entry, dict) else None
        if number is None:
            continue
        major = _int(entry.get("computeMajor", entry.get("major")))
        minor = _int(entry.get("computeMinor", entry.get("minor")))
        name = _text(entry.get("name"))
        found[number] = {
            "vendor": _vendor(name or ""),
            "name": name,
            "sm_count": _int(entry.get("numSms", entry.get("multiProcessorCount"))),
            "memory_bytes": _int(entry.get("totalGlobalMem")),
            "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
            "warp_size": _int(entry.get("warpSize")),
            "max_threads_per_sm": _int(
                entry.get("maxThreadsPerMultiprocessor", entry.get("maxThreadsPerMultiProcessor"))
            ),
            "registers_per_sm": _int(entry.get("regsPerMultiprocessor")),
            "shared_bytes_per_sm": _int(entry.get("sharedMemPerMultiprocessor")),
        }
    # ROCm's tracers number agents, processors among them, where the header numbers GPUs: which GPU
    # an agent is cannot be told, but where all are alike it need not be.
    first = next(iter(found.values()), {})
    alike = first.get("vendor") == "amd" and all(entry == first for entry in found.values())
    for number in used:
        found.setdefault(number, first if alike else kind)
    names = (
        "vendor",
        "name",
        "sm_count",
        "memory_bytes",
        "compute_capability",
        "warp_size",
        "max_threads_per_sm",
        "registers_per_sm",
        "shared_bytes_per_sm",
    )
    texts = {"vendor", "name", "compute_capability"}
    ordered = sorted(found)
    return pl.DataFrame(
        [pl.Series("device_id", ordered, dtype=pl.Int64)]
        + [
            pl.Series(
                n,
                [found[d].get(n) for d in ordered],
                dtype=pl.String if n in texts else pl.Int64,
            )
            for n in names
        ]
    )


def _vendor(name: str) -> str | None:
    low = name.lower()
    for vendor, words in (
        ("nvidia", ("nvidia", "tesla", "geforce", "quadro", "rtx")),
        ("amd", ("amd", "radeon", "instinct")),
        ("intel", ("intel", "data center gpu max")),
        ("meta", ("mtia",)),
    ):
        if any(word in low for word in words):
            return vendor
    return None


def _threads(counted: Counted, facts: Facts) -> pl.DataFrame:
    used = facts["threads"]
    return pl.DataFrame(
        {
            "pid": [p for p, _ in used],
            "tid": [t for _, t in used],
            "process_name": [counted["process_names"].get(p) for p, _ in used],
            "thread_name": [counted["thread_names"].get((p, t)) for p, t in used],
        },
        schema={
            "pid": pl.Int64,
            "tid": pl.Int64,
            "process_name": pl.String,
            "thread_name": pl.String,
        },
    )


# Who wrote a Chrome trace, by a process that only its traces have.
_TOOLS = (
    (re.compile(r"^/.*\b(?i:cpu|gpu):\d+.* (?:Compute|Tensors)$"), checks.TF),
    (re.compile(r"^/(?:device|host):"), checks.XLA),
    (re.compile(r"^Ascend Hardware$"), "torch_npu"),
)


def _name_tool(counted: Counted, header: dict[str, Any]) -> str:
    """The tool that wrote a trace, as far as it can be told."""
    if "schemaVersion" in header or counted["span"] is not None or "distributedInfo" in header:
        return checks.TORCH
    for pattern, tool in _TOOLS:
        if any(pattern.match(name) for name in counted["process_names"].values()):
            return tool
    metadata = header.get("metadata")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    found = re.match(r"(uftrace)\b", version) if isinstance(version, str) else None
    return found[1] if found else "Chrome trace"


def _recording(
    counted: Counted,
    facts: Facts,
    header: dict[str, Any],
    base: int,
    options: ImportOptions,
) -> Recording:
    info = header.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    rank = _int(info.get("rank"))
    version = header.get("cuda_runtime_version", header.get("hip_runtime_version"))
    span = counted["span"]
    return Recording(
        tool=_name_tool(counted, header),
        tool_version=None if version is None else f"runtime {version}",
        rank=rank if rank is not None and rank >= 0 else None,
        world_size=_int(info.get("world_size")),
        host=_text(header.get("host_name")) if options.keep_identity else None,
        clock_offset_ns=base,
        start_ns=None if span is None else span[0] + base,
        end_ns=None if span is None else span[1] + base,
        has_stacks=facts["has_python"] or facts["has_stack"],
        has_shapes=facts["has_shapes"],
    )
