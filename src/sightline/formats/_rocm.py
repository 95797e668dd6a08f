"""What the importers of AMD's profilers share: their records as the model's tables.

rocpd databases, rocprofv3's JSON and its CSV files hold the same records of rocprofiler-sdk under
nearly the same names (rocprofiler-sdk documentation, "Using rocprofv3", "rocpd output format").
Times are in ns of one clock of the machine, which none of the files ties to the time of day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.lookup import find_first_rows
from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Quality, Recording
from sightline.core.units import INT64_MAX

SOURCE = "https://rocm.docs.amd.com/projects/rocprofiler-sdk"

# Numbers are int64, texts strings; what a file does not say is null, or the column is absent.
DISPATCH = (
    "start_ns", "end_ns", "pid", "agent", "queue_id", "stream_id", "correlation_id",
    "workgroup_x", "workgroup_y", "workgroup_z", "work_items_x", "work_items_y", "work_items_z",
    "lds_bytes", "scratch_bytes", "vgprs",
)  # fmt: skip
COPY = (
    "start_ns", "end_ns", "pid", "queue_id", "stream_id", "correlation_id", "src_agent",
    "dst_agent", "bytes",
)  # fmt: skip
REGION = ("start_ns", "end_ns", "pid", "tid", "correlation_id")
ALLOCATION = ("time_ns", "pid", "tid", "agent", "address", "bytes", "correlation_id")

# Times beyond half the range are damage: sums and differences of the others cannot overflow.
_TIME_LIMIT = INT64_MAX // 4
_COPY_KINDS = {"HOST_TO_HOST": "HtoH", "HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH"}
_LEVELS = {"REAL": "device", "VIRTUAL": "virtual", "SCRATCH": "scratch"}


@dataclass
class Records:
    """What a file holds. Frames have the columns above, and texts.

    dispatches: `name`, `mangled_name`. copies: `name`. regions: `category`, `name`, `message`.
    allocations: `action` (ALLOC, FREE, REALLOC, RECLAIM), `level` (REAL, VIRTUAL, SCRATCH).
    counts: values of hardware counters, with `metric`, `agent`, `start_ns`, `end_ns`, `value`.
    """

    dispatches: pl.DataFrame
    copies: pl.DataFrame
    regions: pl.DataFrame
    allocations: pl.DataFrame
    counts: pl.DataFrame
    gpus: dict[int, dict[str, Any]]  # by agent, in the machine's order: what is known of each
    threads: pl.DataFrame  # pid, tid, thread_name


def build_tables(records: Records, recording: Recording, quality: Sequence[Quality]) -> Imported:
    """The declared tables of the records, with launches joined and ranges nested."""
    notes = list(quality)
    numbers = number_gpus(records)
    ranges = _nest_regions(_keep_timed(records.regions, notes, "API calls and markers"))
    ops = pl.concat(
        [
            _name_dispatches(_keep_timed(records.dispatches, notes, "kernels"), numbers),
            _name_copies(_keep_timed(records.copies, notes, "copies"), numbers),
        ],
        how="diagonal",
    ).sort("start_ns", "end_ns", maintain_order=True)
    calls = ranges.filter(pl.col("correlation_id").is_not_null())
    ops = _add_call(ops, calls, "launch_id").with_columns(
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    memory, unfreed = _list_memory(records.allocations, numbers)
    odd = records.allocations.filter(~pl.col("action").is_in(_ACTIONS).fill_null(False)).height
    if odd:
        text = "allocation rows have an unknown action: they were left out"
        notes.append(Quality("damaged_values", "warning", text, odd))
    if unfreed:
        text = "frees of memory whose allocation was not recorded: their size is not known"
        notes.append(Quality("unknown_free", "info", text, unfreed))
    tables = {
        "device_ops": ops,
        "host_ops": ranges,
        "memory_events": _add_call(memory, calls, "host_op_id"),
        "counters": _list_counters(records.counts, numbers),
        "devices": _list_devices(records.gpus, numbers),
        "threads": records.threads,
    }
    if records.counts.height:
        text = (
            "hardware counters were collected, for which kernels run one at a time: the profiler "
            "causes the gaps between them, and nothing overlaps"
        )
        remedy = "For the timeline, record without counters:  rocprofv3 --sys-trace -- PROGRAM"
        notes.append(Quality("serialized_kernels", "warning", text, None, remedy))
    elif ops.height and calls.is_empty():
        is_call = pl.col("layer").is_in(["runtime", "driver"])
        what = "no API calls were recorded"
        if ranges.select(is_call.any()).item():
            what = "API calls were recorded without the correlation ids that tie GPU work to them"
        text = f"{what}: who launched what, and why the GPU waits, is not known"
        remedy = "Record them, too:  rocprofv3 --sys-trace -- PROGRAM"
        notes.append(Quality("no_api_calls", "warning", text, None, remedy))
    return Imported(tables, recording, notes)


def number_gpus(records: Records) -> dict[int, int]:
    """Each agent's number as a device: its place among the machine's GPUs.

    Agents are CPUs, too, so that their own numbers are not ordinals of GPUs. One that ran kernels
    without being listed comes behind the listed ones.
    """
    used = records.dispatches.get_column("agent").drop_nulls().unique().sort().to_list()
    known = list(records.gpus)
    return {agent: i for i, agent in enumerate(known + [a for a in used if a not in known])}


def name_layer(category: str | None) -> str:
    """The layer of host_ops that a kind of rocprofiler-sdk's records belongs to."""
    text = (category or "").upper()
    for start, layer in (
        ("HIP", "runtime"),
        ("HSA", "driver"),
        ("SCRATCH_MEMORY", "driver"),  # which HSA allocates before a dispatch
        ("MARKER", "annotation"),
        ("ROCTX", "annotation"),
        ("MPI", "mpi"),
        ("OMPT", "openmp"),
        ("PYTHON", "python"),
    ):
        if text.startswith(start):
            return layer
    return "library"  # RCCL_API, ROCDECODE_API, ROCJPEG_API and what comes


def describe_agent(agent: Mapping[str, Any]) -> dict[str, Any]:
    """What rocprofiler-sdk says of a GPU (agent.h), as a row of `devices`."""

    def number(name: str, times: int = 1) -> int | None:
        value = agent.get(name)
        return value * times if isinstance(value, int) and 0 < value < 2**40 else None

    banks = agent.get("mem_banks")
    sizes = [b.get("size_in_bytes") for b in banks if isinstance(b, dict)] if banks else []
    memory = sum(s for s in sizes if isinstance(s, int) and 0 < s < 2**60)
    waves, width = number("max_waves_per_cu"), number("wave_front_size")
    return {
        "vendor": "amd" if agent.get("vendor_name") in ("AMD", None) else "unknown",
        "name": agent.get("product_name") or agent.get("name"),
        "sm_count": number("cu_count"),
        "max_clock_hz": number("max_engine_clk_fcompute", 10**6),
        "memory_bytes": memory or None,
        "warp_size": width,
        "max_threads_per_sm": waves * width if waves and width else None,
        "shared_bytes_per_sm": number("lds_size_in_kb", 1024),
    }


def make_frame(
    rows: Sequence[Mapping[str, Any]], numbers: Sequence[str], *texts: str
) -> pl.DataFrame:
    """Rows as a frame of these columns; a number that is none, or beyond 64 bits, is null."""
    schema = {**dict.fromkeys(numbers, pl.Int64), **dict.fromkeys(texts, pl.String)}
    return pl.DataFrame(
        [_make_series(name, [row.get(name) for row in rows], t) for name, t in schema.items()]
    )


def _make_series(name: str, values: list[Any], dtype: type[pl.DataType]) -> pl.Series:
    try:
        made = pl.Series(name, values)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        made = None
    if made is not None and made.dtype == dtype:
        return made
    # Nearly always all are of one type, or missing: only then is each looked at.
    return pl.Series(name, [_fit(value, dtype) for value in values], dtype=dtype)


def _fit(value: Any, dtype: Any) -> Any:
    if dtype == pl.String:
        return value if isinstance(value, str) else None
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _keep_timed(frame: pl.DataFrame, notes: list[Quality], what: str) -> pl.DataFrame:
    """The rows with a start and an end that comes not before it."""
    limit = pl.lit(_TIME_LIMIT)
    within = pl.all_horizontal(pl.col("start_ns", "end_ns").is_between(-limit, limit))
    kept = frame.filter(within & (pl.col("end_ns") >= pl.col("start_ns")))
    if kept.height < frame.height:
        text = f"{what} without a start, or with an end before it, were left out"
        notes.append(Quality("damaged_times", "warning", text, frame.height - kept.height))
    return kept


def _nest_regions(frame: pl.DataFrame) -> pl.DataFrame:
    """API calls and markers as host_ops; helper columns none."""
    kinds = frame.get_column("category").unique().to_list()
    layers = {kind: name_layer(kind) for kind in kinds if kind is not None}
    is_mark = pl.col("start_ns") == pl.col("end_ns")
    layer = pl.col("category").replace_strict(layers, default="library", return_dtype=pl.String)
    named = frame.select(
        "start_ns",
        "end_ns",
        "pid",
        "tid",
        correlation_id=_known("correlation_id"),
        layer=layer,
        name=pl.coalesce("message", "name", pl.lit("unknown call")),
        range_kind=pl.when(layer == "annotation").then(
            pl.when(is_mark).then(pl.lit("mark")).otherwise(pl.lit("pushpop"))
        ),
    )
    return nest_ranges(named, apart=pl.col("range_kind") == "mark")


def _name_dispatches(frame: pl.DataFrame, numbers: dict[int, int]) -> pl.DataFrame:
    # A grid is counted in work-items: a block is a workgroup.
    blocks = {
        f"grid_{axis}": -(-pl.col(f"work_items_{axis}") // _known(f"workgroup_{axis}"))
        for axis in "xyz"
    }
    return frame.select(
        "start_ns",
        "end_ns",
        "pid",
        device_id=_ordinal("agent", numbers).fill_null(0),
        stream_id=_choose_stream(frame),
        kind=pl.lit("kernel"),
        name=pl.coalesce("name", "mangled_name", pl.lit("unknown kernel")),
        mangled_name="mangled_name",
        correlation_id=_known("correlation_id"),
        **{f"block_{axis}": pl.col(f"workgroup_{axis}") for axis in "xyz"},
        **blocks,
        registers_per_thread="vgprs",
        shared_bytes="lds_bytes",
        local_bytes_per_thread="scratch_bytes",
    )


def _name_copies(frame: pl.DataFrame, numbers: dict[int, int]) -> pl.DataFrame:
    words = pl.col("name").str.extract(r"((?:HOST|DEVICE)_TO_(?:HOST|DEVICE))")
    source, target = _ordinal("src_agent", numbers), _ordinal("dst_agent", numbers)
    told = words.replace_strict(_COPY_KINDS, default=None, return_dtype=pl.String)
    between = pl.when(source != target).then(pl.lit("PtoP")).otherwise(pl.lit("DtoD"))
    return frame.select(
        "start_ns",
        "end_ns",
        "pid",
        "bytes",
        device_id=pl.coalesce(target, source, pl.lit(0, pl.Int64)),
        stream_id=_choose_stream(frame),
        kind=pl.lit("memcpy"),
        name=pl.coalesce("name", pl.lit("copy")),
        copy_kind=pl.coalesce(told, pl.when(words == "DEVICE_TO_DEVICE").then(between)),
        src_device_id=source,
        dst_device_id=target,
        correlation_id=_known("correlation_id"),
    )


def _choose_stream(frame: pl.DataFrame) -> str:
    """The column of streams; where none was recorded, the hardware queue stands for it."""
    has_streams = frame.get_column("stream_id").null_count() < frame.height
    return "stream_id" if has_streams else "queue_id"


def _known(column: str) -> pl.Expr:
    """The column, null where it is 0, which stands for none."""
    return pl.when(pl.col(column) != 0).then(pl.col(column)).alias(column)


def _ordinal(column: str, numbers: dict[int, int]) -> pl.Expr:
    return pl.col(column).replace_strict(numbers, default=None, return_dtype=pl.Int64)


def _add_call(frame: pl.DataFrame, calls: pl.DataFrame, name: str) -> pl.DataFrame:
    """The frame with the id of the API call that has its process and correlation id."""
    # CSV files of kernels do not name their process, unless in the file's name.
    nameless = frame.get_column("pid").null_count() and calls.get_column("pid").n_unique() == 1
    by = [] if nameless else ["pid"]
    row = find_first_rows(calls, frame, "correlation_id", by)
    return frame.with_columns(calls.get_column("host_op_id").gather(row).alias(name))


_ACTIONS = ("ALLOC", "FREE", "REALLOC", "RECLAIM")


def _list_memory(frame: pl.DataFrame, numbers: dict[int, int]) -> tuple[pl.DataFrame, int]:
    """Allocations and frees; a free names neither size nor agent: its allocation does.

    Also how many frees have no recorded allocation. They are left out, since their size is not
    known, as are REALLOC and RECLAIM, which change neither.
    """
    wanted = frame.filter(pl.col("action").is_in(["ALLOC", "FREE"])).drop_nulls("time_ns")
    wanted = wanted.sort("time_ns", maintain_order=True)
    is_alloc = pl.col("action") == "ALLOC"
    whose = ["pid", "address", "level"]
    filled = wanted.with_columns(
        pl.when(is_alloc).then(c).forward_fill().over(whose).alias(c) for c in ("bytes", "agent")
    )
    kept = filled.filter(pl.col("bytes") > 0)
    unknown = filled.filter(~is_alloc & pl.col("bytes").is_null()).height
    device = _ordinal("agent", numbers)
    level = pl.col("level").replace_strict(_LEVELS, default=None, return_dtype=pl.String)
    found = kept.select(
        "time_ns",
        "pid",
        "tid",
        "address",
        "bytes",
        device_id=device,
        action=pl.when(is_alloc).then(pl.lit("alloc")).otherwise(pl.lit("free")),
        memory_kind=pl.when(device.is_null() & (level == "device"))
        .then(pl.lit("host"))
        .otherwise(level),
        correlation_id=_known("correlation_id"),
    )
    return found, unknown


def _list_counters(frame: pl.DataFrame, numbers: dict[int, int]) -> pl.DataFrame:
    """A hardware counter's value over each kernel: the sum of what its instances counted."""
    return (
        frame.group_by("metric", "agent", "start_ns", "end_ns", maintain_order=True)
        .agg(pl.col("value").sum())
        .select(
            "metric",
            "value",
            device_id=_ordinal("agent", numbers),
            from_ns="start_ns",
            time_ns="end_ns",
        )
    )


def _list_devices(gpus: dict[int, dict[str, Any]], numbers: dict[int, int]) -> pl.DataFrame:
    if not numbers:
        return pl.DataFrame(schema={"device_id": pl.Int64})
    rows = [
        {"device_id": number, **({"vendor": "amd"} | gpus.get(agent, {}))}
        for agent, number in numbers.items()
    ]
    return pl.DataFrame(rows, schema_overrides={"device_id": pl.Int64}, infer_schema_length=None)
