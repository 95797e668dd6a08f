"""Planes as the declared tables."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from sightline.core.algebra.lookup import find_first_rows
from sightline.core.algebra.nesting import nest_ranges
from sightline.core.algebra.shared_texts import tabulate
from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.protobuf import DamagedMessageError, decode_text, parse_message, read_messages
from sightline.errors import DamagedError
from sightline.formats._text_damage import is_nearly
from sightline.formats.jax.xplane import operations, programs
from sightline.formats.jax.xplane.planes import Event, Plane, XPlane

_PLANES = 1  # XSpace: the planes
_DEVICE = re.compile(r"^/device:(GPU|TPU):(\d+)")
_NAMED = ("/host:CPU", "/host:metadata", *(f"/device:{kind}:{n}" for kind in ("GPU", "TPU")
                                           for n in range(16)))  # fmt: skip
_STREAM = re.compile(r"^Stream #(\d+)")
# Lines of device planes that XLA derives from the others, or that frame them.
_FRAMES = ("Steps", "XLA Modules")
_CORE, _COPIES, _EXCHANGES = 0, 1, 2  # streams of a TPU: its core, and what runs beside it
_PID = 0  # a file is of one process, and before JAX 0.9 or so does not say which
_PYTHON_LINE = re.compile(r"^python[\d.]*$")  # the thread of a program that Python runs
_CALL = re.compile(r"^(?:cu|hip|cuda|ze)[A-Z]\w*$")
_DETAIL = re.compile(r"(\w+)[:=]([\w.,]+)")
# The same with the graph that it launches behind it: cuGraphLaunch (CudaGraph:6).
_CALL_OF = r"^((?:cu|hip)[A-Z]\w*)(?: \(.*\))?$"
# What the host's record of a launch is called, by what it launches.
_LAUNCHES = {"kernel": "cuLaunchKernel", "memcpy": "cuMemcpyAsync", "memset": "cuMemsetAsync"}
_FILL = re.compile(r"Memset\b")
_KINDS = {"H2D": "HtoD", "D2H": "DtoH", "D2D": "DtoD", "P2P": "PtoP", "H2H": "HtoH"}
_MAKERS = {"TPU": "google"}
_COPY = re.compile(r"(Host|Device)To(Host|Device)")
_VENDORS = {"amd": "amd", "nvidia": "nvidia", "intel": "intel"}
_MOST_DETAILS = 4096  # characters of a kernel's details, which have some 200
_KINDS_AT_ONCE = 1 << 14  # names and details whose meaning is remembered
MOST_REGISTERS = 1 << 16  # of a thread; more than that is what AMD's tracer leaves unset

_OPS = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "device_id": pl.Int64, "stream_id": pl.Int64,
    "kind": pl.String, "name": pl.String, "correlation_id": pl.Int64, "grid_x": pl.Int64,
    "grid_y": pl.Int64, "grid_z": pl.Int64, "block_x": pl.Int64, "block_y": pl.Int64,
    "block_z": pl.Int64, "registers_per_thread": pl.Int64, "static_shared_bytes": pl.Int64,
    "dynamic_shared_bytes": pl.Int64, "shared_bytes": pl.Int64, "local_bytes_per_thread": pl.Int64,
    "bytes": pl.Int64, "copy_kind": pl.String, "operation": pl.String, "module": pl.String,
    "collective": pl.String,
}  # fmt: skip
_RANGES = {
    "device_id": pl.Int64, "stream_id": pl.Int64, "name": pl.String, "start_ns": pl.Int64,
    "end_ns": pl.Int64,
}  # fmt: skip
_HOST = {
    "start_ns": pl.Int64, "end_ns": pl.Int64, "pid": pl.Int64, "tid": pl.Int64,
    "layer": pl.String, "name": pl.String, "correlation_id": pl.Int64, "range_kind": pl.String,
}  # fmt: skip


class _Tables:
    """Rows as they come, plane by plane."""

    def __init__(self) -> None:
        self.ops: list[dict[str, Any]] = []
        self.ranges: list[dict[str, Any]] = []
        self.host: list[dict[str, Any]] = []
        self.devices: list[dict[str, Any]] = []
        self.threads: list[tuple[int, int, str]] = []
        self.buffers: list[dict[str, Any]] = []
        self.bad_programs = 0
        self.begin_ns = 0
        self.planes = 0
        self.bad_times = 0
        self.odd_planes = 0


def read_space(source: Source, options: ImportOptions) -> Imported:
    """The tables of one file. Raises DamagedError where no plane holds an event."""
    notes: list[Quality] = []
    tables = _Tables()
    try:
        with source.open() as stream:
            for message in read_messages(stream, _PLANES):
                _read_plane(Plane(parse_message(XPlane, message)), tables)
    except (DamagedMessageError, EOFError, OSError) as error:
        text = f"the file is damaged or cut off after its plane {tables.planes}: {error}"
        notes.append(Quality("truncated", "error", text))
    if not (tables.ops or tables.host):
        raise DamagedError(
            f"cannot read {source.given}",
            why="it is cut off or damaged before its first event"
            if notes
            else f"its {tables.planes} planes hold no event",
            hint="Record with:  with jax.profiler.trace('DIR'): ...",
        )
    if tables.bad_times:
        text = "events whose times no clock can have were left out"
        notes.append(Quality("damaged_times", "warning", text, tables.bad_times))
    if tables.odd_planes:
        text = "planes or lines with events have names that are damaged: they were left out"
        notes.append(Quality("damaged_names", "warning", text, tables.odd_planes))
    if tables.bad_programs:
        text = "compiled programs whose description is damaged were left out"
        notes.append(Quality("damaged_entries", "warning", text, tables.bad_programs))
    return Imported(_build(tables), Recording("XLA", layers=("op",)), notes)


def _read_plane(plane: Plane, tables: _Tables) -> None:
    tables.planes += 1
    device = _DEVICE.match(plane.name)
    if device:
        nameless = (line.events and not (line.name or line.display_name) for line in plane.lines)
        tables.odd_planes += any(nameless)
        _read_device(plane, device[1], int(device[2]), tables)
    elif plane.name.startswith("/host:CPU"):
        pid = _find_process(plane)
        names = [decode_text(line.display_name or line.name) for line in plane.lines]
        # A line's number is a hash. Python's only thread is the process' first one.
        has_one = sum(bool(_PYTHON_LINE.match(name)) for name in names) == 1
        for line, name in zip(plane.lines, names, strict=True):
            tid = pid if pid and has_one and _PYTHON_LINE.match(name) else line.id
            tables.threads.append((pid, tid, name))
            for event in plane.list_events(line):
                tables.host.append(_describe_host(event, pid, tid))
    elif plane.name == "/host:metadata":
        for program, hlo in plane.list_programs():
            try:
                tables.buffers.extend(programs.list_buffers(program, hlo))
            except DamagedMessageError:
                tables.bad_programs += 1
    elif plane.name == "Task Environment":
        started = plane.facts.get("profile_start_time")
        tables.begin_ns = started if isinstance(started, int) and 0 < started < 2**61 else 0
    elif not plane.name.isprintable() or any(is_nearly(plane.name, one) for one in _NAMED):
        tables.odd_planes += any(line.events for line in plane.lines)
    tables.bad_times += plane.bad_times


def _find_process(plane: Plane) -> int:
    """The process that a plane of the host is of."""
    told = plane.facts.get("process_id")
    return told if isinstance(told, int) and 0 < told < 2**31 else _PID


def _read_device(plane: Plane, unit: str, number: int, tables: _Tables) -> None:
    facts = plane.facts
    if not plane.lines and plane.fact_count <= 1:
        return  # a device that was there, of which nothing is known

    def scaled(name: str, times: int = 1) -> int | None:
        value = facts.get(name)
        return value * times if isinstance(value, int) and 0 < value < 2**50 else None

    vendor = str(facts.get("device_vendor", "")).lower()
    capability = [facts.get(f"compute_cap_{part}") for part in ("major", "minor")]
    is_nvidia = vendor.startswith("nvidia") and None not in capability
    tables.devices.append(
        {
            "device_id": number,
            "vendor": next((v for word, v in _VENDORS.items() if word in vendor), None)
            or _MAKERS.get(unit),
            "name": facts.get("device_type_string") or (unit if unit in _MAKERS else None),
            "sm_count": scaled("core_count"),
            "max_clock_hz": scaled("clock_rate", 1000),
            "memory_bytes": scaled("memory_size"),
            "memory_bandwidth_bytes_per_s": scaled("memory_bandwidth"),
            "compute_capability": f"{capability[0]}.{capability[1]}" if is_nvidia else None,
        }
    )
    has_async = any(
        decode_text(line.name) == operations.ASYNC_LINE and line.events for line in plane.lines
    )
    for line in plane.lines:
        name = decode_text(line.name)
        stream = _STREAM.match(name)
        place = {"device_id": number, "stream_id": int(stream[1]) if stream else None}
        if stream:
            for event in plane.list_events(line):
                tables.ops.append(place | _describe_work(event))
        elif name == operations.CORE_LINE:
            events = plane.list_events(line)
            _place_work(operations.list_core_work(events, has_async=has_async), number, tables)
        elif name == operations.ASYNC_LINE:
            _place_work(operations.list_async_work(plane.list_events(line)), number, tables)
        elif name in _FRAMES:
            for event in plane.list_events(line):
                frame = {"name": event.name, "start_ns": event.start_ns, "end_ns": event.end_ns}
                tables.ranges.append(place | frame)


def _place_work(found: Iterable[operations.Work | Event], device: int, tables: _Tables) -> None:
    """Rows for what an accelerator's lines hold; what runs beside the core has other streams."""
    for one in found:
        event = one if isinstance(one, Event) else one.event
        times = {"device_id": device, "start_ns": event.start_ns, "end_ns": event.end_ns}
        if isinstance(one, Event):
            tables.ranges.append(times | {"stream_id": _CORE, "name": event.name})
            continue
        _, part = operations.split_category(operations.name_category(event))
        is_beside = bool(part) and one.kind != "other"
        stream = (_COPIES if one.kind == "memcpy" else _EXCHANGES) if is_beside else _CORE
        row = times | {"stream_id": stream} | operations.describe_work(one)
        tables.ops.append(row)


def _describe_work(event: Event) -> dict[str, Any]:
    facts = event.facts
    copied, filled = facts.get("memcpy_details"), facts.get("memset_details")
    # Fills of what is recorded without details have the name that CUPTI's records get.
    is_fill = not facts.get("kernel_details") and _FILL.match(event.name) is not None
    details = _read_details(str(facts.get("kernel_details") or copied or filled or ""))
    sizes: dict[str, int | None] = {}
    for shape in ("grid", "block"):
        parts = details.get(shape, "").split(",")
        for axis, part in zip("xyz", parts if len(parts) == 3 else ("", "", ""), strict=True):
            sizes[f"{shape}_{axis}"] = _number(part)
    registers = _number(details.get("regs"))
    is_set = registers is not None and registers < MOST_REGISTERS
    direction = _COPY.search(event.name[:_MOST_DETAILS]) if copied else None
    kind = _KINDS.get(details.get("kind", ""))
    return {
        "start_ns": event.start_ns,
        "end_ns": event.end_ns,
        "kind": "memcpy" if copied else "memset" if filled or is_fill else "kernel",
        "name": event.name,
        "correlation_id": _number(facts.get("correlation_id")),
        **sizes,
        "registers_per_thread": registers if is_set else None,
        "static_shared_bytes": _number(details.get("static_shared")) if is_set else None,
        "dynamic_shared_bytes": _number(details.get("dynamic_shared")) if is_set else None,
        "shared_bytes": _number(details.get("group_mem")),
        "local_bytes_per_thread": _number(details.get("private_mem")),
        "bytes": _number(details.get("size")),
        "copy_kind": kind or (f"{direction[1][0]}to{direction[2][0]}" if direction else None)
        if copied
        else None,
        "operation": _text(facts.get("hlo_op")),
        "module": _text(facts.get("hlo_module")),
    }


@functools.lru_cache(maxsize=_KINDS_AT_ONCE)
def _read_details(text: str) -> dict[str, str]:
    """What a kernel's details say, by their names."""
    return dict(_DETAIL.findall(text[:_MOST_DETAILS]))


def _describe_host(event: Event, pid: int, thread: int) -> dict[str, Any]:
    step = event.facts.get("step_num")
    layer = "annotation"
    if isinstance(step, int):
        layer = "step"
    elif event.name.startswith("$"):
        layer = "python"
    elif _CALL.match(event.name):
        layer = "runtime"
    elif "hlo_op" in event.facts:
        layer = "op"  # an operation that XLA ran on the CPU
    elif _is_qualified(event.name) or event.facts.keys() & {"_p", "_c", "_pt", "_ct"}:
        layer = "library"  # of XLA's own runtime
    return {
        "start_ns": event.start_ns,
        "end_ns": event.end_ns,
        "pid": pid,
        "tid": thread,
        "layer": layer,
        "name": f"{event.name} {step}" if layer == "step" else event.name.removeprefix("$"),
        "correlation_id": _number(event.facts.get("correlation_id")),
        "range_kind": "pushpop" if layer == "annotation" else None,
    }


@functools.lru_cache(maxsize=_KINDS_AT_ONCE)
def _is_qualified(name: str) -> bool:
    return "::" in name


def _build(tables: _Tables) -> dict[str, pl.DataFrame]:
    begin = pl.lit(_find_shift(tables), pl.Int64)
    moved = [(pl.col("start_ns") + begin), (pl.col("end_ns") + begin)]
    host = nest_ranges(tabulate(tables.host, _HOST).with_columns(moved))
    ops = (
        tabulate(tables.ops, _OPS)
        .with_columns(moved)
        .sort("start_ns", "end_ns", maintain_order=True)
    )
    host = _name_launches(host, ops)
    calls = host.filter(pl.col("correlation_id").is_not_null() & (pl.col("layer") == "runtime"))
    row = find_first_rows(calls, ops, "correlation_id", [])
    ranges = tabulate(tables.ranges, _RANGES).with_columns(moved)
    return {
        "device_ops": ops.drop("operation", "module", "collective").with_columns(
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
            launch_id=calls.get_column("host_op_id").gather(row),
        ),
        "collectives": ops.select(
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64), op="collective"
        ).drop_nulls(),
        "device_ranges": pl.concat([ranges, _span_operations(ops)]),
        "host_ops": host,
        "devices": pl.DataFrame(
            tables.devices,
            schema_overrides={"device_id": pl.Int64, "name": pl.String, "vendor": pl.String},
            infer_schema_length=None,
        )
        if tables.devices
        else pl.DataFrame(schema={"device_id": pl.Int64}),
        "program_buffers": tabulate(tables.buffers, programs.SCHEMA),
        "threads": pl.DataFrame(
            tables.threads,
            schema={"pid": pl.Int64, "tid": pl.Int64, "thread_name": pl.String},
            orient="row",
        ),
    }


def _name_launches(host: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The host's rows, where calls of the driver that launch are named as calls.

    XLA gives the record of such a call the name of what it launches: a kernel's, or MemcpyH2D
    (xla/backends/profiler/gpu/cupti_tracer.cc, AddKernelEventUponApiExit). Which of the driver's
    calls it was, is not recorded. A call that launches a graph has its own name, with the graph's.
    """
    launched = host.join(
        ops.select("correlation_id", "kind").unique("correlation_id", keep="first"),
        on="correlation_id",
        how="left",
        maintain_order="left",
    )
    named = pl.col("name").cast(pl.String)
    is_call = pl.col("layer") == "runtime"
    with_graph = named.str.extract(_CALL_OF)
    found = pl.coalesce(
        with_graph, pl.col("kind").replace_strict(_LAUNCHES, default=None, return_dtype=pl.String)
    )
    is_renamed = ~is_call & pl.col("correlation_id").is_not_null() & found.is_not_null()
    return launched.with_columns(
        layer=pl.when(is_renamed).then(pl.lit("runtime")).otherwise("layer"),
        name=pl.when(is_renamed).then(found).otherwise(named),
        range_kind=pl.when(~is_renamed).then("range_kind"),
    ).drop("kind")


def _find_shift(tables: _Tables) -> int:
    """What makes the times those of the day: lines count from the profile's start, or do not."""
    latest = max((row["end_ns"] for row in (*tables.ops, *tables.host)), default=0)
    return tables.begin_ns if latest < tables.begin_ns else 0


def _span_operations(ops: pl.DataFrame) -> pl.DataFrame:
    """The operations of XLA's modules, each over the kernels that it ran one after the other."""
    named = ops.drop_nulls("operation").sort(
        "device_id", "stream_id", "start_ns", maintain_order=True
    )
    key = ["device_id", "stream_id", "module", "operation"]
    run = pl.struct(key).rle_id()
    return (
        named.group_by(run.alias("run"), maintain_order=True)
        .agg(
            pl.col(key).first(),
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
        )
        .select(
            "device_id",
            "stream_id",
            pl.concat_str("module", "operation", separator="/", ignore_nulls=True).alias("name"),
            "start_ns",
            "end_ns",
        )
    )


def _number(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value):
        return int(value)
    return value if type(value) is int and 0 <= value < 2**62 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
