"""Intel unitrace --chrome-…: calls of the host, and the work of the devices that they launched.

Format: intel/pti-gpu, tools/unitrace/src/chromelogger.h: Chrome's trace events, one to a line with
its keys in one order, and neither names escaped nor times finer than 1 µs. Each device is a process
of its own, each engine a thread of it; processes are named at the very end. An arrow (`s`) behind a
call has the number of the work that the call launched. Hardware metrics are in none of these
events: unitrace writes them as CSV.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source, read_intact
from sightline.errors import DamagedError
from sightline.formats._pairs import pair_ends
from sightline.formats._stacks import note_bad_lines
from sightline.formats.intel._unitrace import describe_entries, is_wait

IMPORTER = Importer(
    name="unitrace_chrome",
    label="Intel unitrace trace (Chrome JSON)",
    # Also where the first line is damaged: Chrome's own events have other keys first.
    strong=(rb'^\{ [^\n]{0,18}\n(?:[^\n]{0,2000}\n)?\{"ph": "\w", "tid": \d+, "pid": \d+, ',),
    weak=(),
    looks_like='{ "traceEvents":[ and lines such as {"ph": "X", "tid": 1, "pid": 2, …',
    suffixes=(".json",),
    version=3,
    source="https://github.com/intel/pti-gpu/blob/master/tools/unitrace/src/chromelogger.h",
)

# Names are not escaped: they end where the next key begins.
_EVENT = (
    r'^\{"ph": "(?P<phase>\w)", "tid": (?P<tid>[0-9]{1,10}), "pid": (?P<pid>[0-9]{1,10})'
    r'(?:, "name": "(?P<name>.*?)")?(?:, "cname": "[^"]*")?, "cat": "(?P<category>\w+)"'
    r', "ts": (?P<ts>[0-4]?[0-9]{1,15})(?:, "dur": (?P<dur>[0-9]{1,15}))?'
    r'(?:, "id": (?P<flow>[0-9]{1,18})|, "args": \{(?:"id": "(?P<work>[0-9]{1,18})"|.*)\})\},?\s*$'
)
_NAMING = (
    r'^\{"ph": "M", "name": "(?P<key>\w+)", "pid": (?P<pid>[0-9]{1,10})(?:, "tid": [0-9]+)?'
    r'(?:, "ts": [0-9]+)?, "args": \{"name": "(?P<name>.*)"\}\},?\s*$'
)
_ARROW = r"^(?:CL_)?Flow_H2D_[0-9]+_([0-9]{1,9})$"
_NUMBERS = ("tid", "pid", "ts", "dur", "flow", "work")
_BLOCK_BYTES = 32 << 20
# What a call is, by its name; the names of tasks (ITT, SYCL) are the program's own.
_LAYERS = (
    (r"^zes?[A-Z]", "driver"),
    (r"^(?:cl|ur|pi)[A-Z]", "runtime"),
    (r"^P?MPI_", "mpi"),
    (r"^(?:aten|torch)::", "op"),
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    events, namings, bad = _read_events(source, quality)
    if not events.height:
        raise DamagedError(
            f"cannot read {source.given}",
            why="it has no complete event",
            hint="Record it again:  unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM",
        )
    quality += note_bad_lines(bad, "events of unitrace")
    processes = _name_processes(events, namings)
    calls = _nest_calls(events, quality)
    work = events.filter((pl.col("category") == "gpu_op") & (pl.col("phase") == "X"))
    work = work.join(processes, on="pid", how="left", maintain_order="left")
    ops = _list_work(work.filter(~is_wait(pl.col("entry"))))
    ops = ops.with_columns(launch_id=_find_launches(ops, calls, events))
    ranks = processes.get_column("process_rank").drop_nulls().unique().to_list()
    devices = work.get_column("device_id").unique().sort()
    tables = {
        "device_ops": ops.drop("process_rank"),
        "host_ops": calls.drop("row"),
        "device_ranges": work.filter(is_wait(pl.col("entry"))).select(
            "device_id", "start_ns", "end_ns", name="entry"
        ),
        "devices": pl.DataFrame({"device_id": devices, "vendor": ["intel"] * devices.len()}),
        "threads": calls.select("pid", "tid").unique().sort("pid", "tid"),
    }
    quality += _check_quality(ops, calls, namings)
    rank = ranks[0] if len(ranks) == 1 else None
    return Imported(tables, Recording("unitrace", rank=rank, clock_offset_ns=0), quality)


def _read_events(source: Source, quality: list[Quality]) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """All events in the file's order, the namings of processes, and how many lines are neither."""
    events, namings, bad = [], [], 0
    for lines in _split_lines(source, quality):
        found = lines.str.extract_groups(_EVENT).struct.unnest()
        is_event = found.get_column("phase").is_not_null()
        others = lines.filter(~is_event)
        # Names are not escaped, and may hold nearly anything: the beginning of a line is another's.
        begins = lines.str.count_matches(r'\{"ph": "\w", "').cast(pl.Int64)
        bad += int((begins - 1).clip(0).sum())
        named = others.str.extract_groups(_NAMING).struct.unnest()
        is_naming = named.get_column("key").is_not_null()
        # The first line and the last ones are the document's own.
        rest = others.filter(~is_naming).str.strip_chars()
        bad += rest.filter(~rest.is_in(['{ "traceEvents":[', "]", "}", ""])).len()
        own = {"cpu_op": ["X", "R", "B", "E"], "gpu_op": ["X"]}  # all others have no work
        for category, phases in own.items():
            is_odd = ~found.get_column("phase").is_in(phases)
            bad += int((is_odd & (found.get_column("category") == category)).sum() or 0)
        events.append(
            found.filter(is_event)
            .with_columns(pl.col(_NUMBERS).cast(pl.Int64))
            .rename({"name": "entry"})
        )
        namings.append(named.filter(is_naming).with_columns(pl.col("pid").cast(pl.Int64)))
    return (
        pl.concat(events).with_columns(
            row=pl.int_range(pl.len(), dtype=pl.Int64),
            start_ns=pl.col("ts") * 1_000,
            end_ns=(pl.col("ts") + pl.col("dur").fill_null(0)) * 1_000,
        ),
        pl.concat(namings),
        bad,
    )


def _split_lines(source: Source, quality: list[Quality]) -> Iterator[pl.Series]:
    """The file's lines, some of them at a time."""
    rest = b""
    with source.open() as stream:
        while True:
            data, damage = read_intact(stream, _BLOCK_BYTES)
            if damage:
                quality.append(Quality("truncated", "error", f"reading stopped early: {damage}"))
            whole, _, rest = (rest + data).rpartition(b"\n")
            if not data or damage or len(rest) > _BLOCK_BYTES:  # no event is that long
                whole, rest = whole + b"\n" + rest, b""
            text = whole.decode("utf-8", "replace")
            yield pl.Series(text.split("\n"), dtype=pl.String)
            if not data or damage:
                return


def _name_processes(events: pl.DataFrame, namings: pl.DataFrame) -> pl.DataFrame:
    """Each process with work of a device: `pid`, `device_id`, `process_rank`.

    Of a device there is a process for each process of the host; its name has the device's place on
    the bus, which says that they are one. Devices are numbered as their work appears.
    """
    names = namings.filter(pl.col("key") == "process_name").unique("pid", keep="first")
    used = events.filter(pl.col("category") == "gpu_op").select("pid").unique(maintain_order=True)
    place = pl.col("name").str.extract(r"^(?:RANK \d+ )?DEVICE(<.*)$")
    known = used.join(names, on="pid", how="left", maintain_order="left").with_columns(
        place=pl.coalesce(place, pl.col("pid").cast(pl.String))
    )
    numbers = known.select("place").unique(maintain_order=True).with_row_index("device_id")
    ranks = pl.col("name").str.extract(r"^RANK (\d{1,9}) ").cast(pl.Int64)
    return known.join(numbers, on="place", maintain_order="left").select(
        "pid", pl.col("device_id").cast(pl.Int64), process_rank=ranks
    )


def _nest_calls(events: pl.DataFrame, quality: list[Quality]) -> pl.DataFrame:
    """Calls and tasks of the host as host_ops, with their `row` among the events."""
    host = events.filter(pl.col("category") == "cpu_op")
    halves = host.filter(pl.col("phase").is_in(["B", "E"])).select(
        "row", "pid", "tid", "entry", "start_ns",
        lane=pl.struct("pid", "tid").rank("dense"), time="start_ns", event="row",
        is_begin=pl.col("phase") == "B",
    )  # fmt: skip
    begins, unmatched = pair_ends(halves)
    if unmatched:
        text = "ends of tasks whose start was not recorded were left out"
        quality.append(Quality("unmatched_ends", "info", text, unmatched))
    last = pl.lit(events.get_column("end_ns").max(), pl.Int64)
    layer = pl.lit("annotation")
    for pattern, name in reversed(_LAYERS):
        layer = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(name)).otherwise(layer)
    columns = ("row", "pid", "tid", "entry", "start_ns", "end_ns")
    ranges = pl.concat(
        [
            host.filter(pl.col("phase").is_in(["X", "R"])).select(columns),
            begins.with_columns(pl.col("end_ns").fill_null(last)).select(columns),
        ]
    )
    named = ranges.select(
        pl.exclude("entry"), name=pl.col("entry").fill_null("unnamed")
    ).with_columns(layer=layer)
    return nest_ranges(named.sort("row"))


def _list_work(work: pl.DataFrame) -> pl.DataFrame:
    """What the devices did, as device_ops; `process_rank` remains."""
    chosen = work.select(
        "entry", "start_ns", "end_ns", "device_id", "process_rank",
        correlation_id="work",
        # An engine's thread has no number but one that counts down from 2³².
        stream_id=pl.col("tid").rank("dense", descending=True).cast(pl.Int64) - 1,
    )  # fmt: skip
    named = chosen.with_columns(pl.col("entry").fill_null("unnamed"))
    ops = describe_entries(named).sort("start_ns", "end_ns", maintain_order=True)
    return ops.with_columns(device_op_id=pl.int_range(pl.len(), dtype=pl.Int64))


def _find_launches(ops: pl.DataFrame, calls: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """The call that launched each operation: the last one before it that an arrow leaves."""
    is_call = (pl.col("category") == "cpu_op") & (pl.col("phase") == "X")
    before = [
        pl.when(is_call).then(c).forward_fill().alias(f"call_{c}")
        for c in ("row", "pid", "tid", "ts")
    ]
    arrows = events.with_columns(before).filter(
        pl.col("phase") == "s",
        pl.col("category").str.contains(_ARROW),
        *(pl.col(f"call_{c}") == pl.col(c) for c in ("pid", "tid", "ts")),
    )
    left = arrows.select(
        pl.col("category").str.extract(_ARROW).cast(pl.Int64).alias("process_rank"),
        correlation_id="flow",
        row="call_row",
        called_ns="start_ns",
    ).join(calls.select("row", "host_op_id"), on="row")
    keys = ["correlation_id"]
    # Numbers count in each process, whose rank is 0 outside of MPI.
    if left.get_column("process_rank").n_unique() > 1:
        keys.append("process_rank")
    # The last call before it, else the first one after it. A damaged file has many of one number:
    # each with each would take the square of them.
    called = left.unique([*keys, "called_ns"], keep="first", maintain_order=True).sort("called_ns")
    wanted = ops.select("device_op_id", "start_ns", *keys).drop_nulls(keys).sort("start_ns")
    last = _find_nearest(wanted, called, keys, "backward")
    first = _find_nearest(wanted, called, keys, "forward")
    found = last.select("device_op_id", last="host_op_id").join(
        first.select("device_op_id", first="host_op_id"), on="device_op_id"
    )
    joined = ops.select("device_op_id").join(
        found, on="device_op_id", how="left", maintain_order="left"
    )
    return joined.select(pl.coalesce("last", "first").alias("host_op_id")).to_series()


def _find_nearest(
    wanted: pl.DataFrame, called: pl.DataFrame, keys: list[str], way: Literal["backward", "forward"]
) -> pl.DataFrame:
    """Of each operation the nearest call of its keys, before it or after it."""
    return wanted.join_asof(
        called, left_on="start_ns", right_on="called_ns", by=keys, strategy=way,
        check_sortedness=False,
    )  # fmt: skip


def _check_quality(
    ops: pl.DataFrame, calls: pl.DataFrame, namings: pl.DataFrame
) -> Iterator[Quality]:
    remedy = "Record both:  unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM"
    if not ops.height:
        text = "no work of a device was recorded"
        yield Quality("no_device_ops", "warning", text, None, remedy)
    elif not calls.get_column("layer").is_in(["driver", "runtime"]).any():
        text = "no API calls were recorded: who launched what, and why the GPU waits, is not known"
        yield Quality("no_api_calls", "warning", text, None, remedy)
    if ops.height:
        text = "times are whole microseconds: short kernels and gaps are off by up to 1 µs each"
        fine = "Of the devices in ns:  unitrace --device-timeline PROGRAM"
        yield Quality("microsecond_clock", "info", text, None, fine)
    empty = ops.filter(pl.col("end_ns") == pl.col("start_ns")).height
    if empty:
        yield Quality("zero_durations", "info", "GPU operations have no duration", empty)
    if not namings.height:
        text = "the recording ends before its devices are named: each process's is taken as its own"
        yield Quality("unnamed_devices", "warning", text)
