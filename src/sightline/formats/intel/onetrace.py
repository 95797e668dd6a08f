"""Intel's onetrace, ze_tracer and cl_tracer: their logs of calls and devices, and Chrome JSON.

Format: intel/pti-gpu, tools/onetrace/unified_tracer.h, tools/ze_tracer: a line for each call's
begin (>>>>) and end (<<<<), and for each activity of a device (Device Timeline), in ns; or Chrome's
events, whose times are whole µs, with the queue's address for a thread. These tools gave way to
unitrace; no recording of theirs was at hand, so that their sources and READMEs are what is tested.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._lines import read_utf8, split_lines, unite
from sightline.formats._stacks import note_bad_lines
from sightline.formats._text_damage import note_blank_lines
from sightline.formats.intel._unitrace import describe_entries, is_wait

IMPORTER = Importer(
    name="onetrace",
    label="Intel onetrace, ze_tracer, cl_tracer (text, JSON)",
    strong=(
        rb"(?:\A|\n)(?:<PID:\d+> )?Device Timeline \(queue: \w+\): [^\n]+ \[ns\] = \d+ \(",
        rb"(?:\A|\n)<<<< \[\d+\] (?:<[PT]ID:\d+> ){0,2}(?:ze|cl)\w+ \[\d+ ns\]",
        rb'\A\[\n\{"ph":"M", "name":"process_name", [^\n]*\n\{"ph":"M", "name":"\w+_start_time"',
    ),
    weak=(),
    looks_like="lines such as Device Timeline (queue: 0x5): NAME [ns] = 3 (append) 4 (submit) …",
    suffixes=(".json", ".txt", ".log"),
    version=4,
    source="https://github.com/intel/pti-gpu/blob/master/tools/onetrace/README.md",
    covers=("unitrace_summary",),
)

_WORK = tuple(
    prefix + "Device Timeline (queue: {queue:word}): {entry:text} [ns] = "
    "{append_ns:int} ("
    + how
    + ") {submit_ns:int} (submit) {start_ns:int} (start) {end_ns:int} (end)"
    for prefix in ("", "<PID:{pid:int}> ")
    for how in ("append", "queued")
)
_CALLS = tuple(
    "<<<< [{end_ns:int}] " + prefix + "{entry:word} [{duration_ns:int} ns]{:any}"
    for prefix in ("", "<PID:{pid:int}> ", "<TID:{tid:int}> ", "<PID:{pid:int}> <TID:{tid:int}> ")
)
# Chrome's events; of stages only the execution. A queue's address stands where a thread does.
_EVENT = (
    r'^\{"ph":"X", "pid":(?P<pid>\d{1,9}), "tid":(?:\w{1,9}\.){0,3}(?P<tid>\d{1,18})'
    r', "name":"(?P<entry>.*?)", "ts": (?P<ts>\d{1,15}), "dur":(?P<dur>\d{1,15})'
    r'(?:, "cname":"[^"]*")?, "args": \{"id": "(?P<work>[^"]*)"\}\},?\s*$'
)
_LEAST_ADDRESS = 1 << 32  # threads of Linux have at most 22 bits, addresses of a heap more than 32
_BROKEN_PLACE = r'"tid":[\w.]*\.\d{0,9},'  # behind a dot stands an address
_STAGE = re.compile(r"^(.*) \((Appended|Queued|Submitted|Execution)\)$")
_COLUMNS = {
    "pid": pl.Int64, "tid": pl.Int64, "queue": pl.String, "entry": pl.String, "work": pl.String,
    "start_ns": pl.Int64, "end_ns": pl.Int64,
}  # fmt: skip
_REMEDY = "Record both:  unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM"


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    data = read_utf8(source, quality)
    is_chrome = data.lstrip()[:1] == b"["
    if is_chrome:
        quality += note_blank_lines(data.rstrip().decode(errors="replace"))
    work, calls, bad = _read_chrome(data) if is_chrome else _read_text(data)
    if work.is_empty() and calls.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    quality += note_bad_lines(bad, "calls or activities of the tracer")
    queues = work.get_column("queue").unique(maintain_order=True)
    numbers = pl.int_range(queues.len(), eager=True)
    placed = work.sort("start_ns", "end_ns", maintain_order=True).with_columns(
        stream_id=pl.col("queue").replace_strict(queues, numbers, return_dtype=pl.Int64),
        device_id=pl.lit(0, pl.Int64),
    )
    nested = _nest_calls(calls)
    ops = describe_entries(placed.filter(~is_wait(pl.col("entry"))).drop("tid", "queue"))
    ops = ops.with_columns(
        device_op_id=pl.int_range(pl.len(), dtype=pl.Int64), launch_id=_find_launches(ops, nested)
    )
    quality += _check_quality(ops, nested, is_chrome=is_chrome)
    tables = {
        "device_ops": ops.drop("work"),
        "host_ops": nested.drop("work"),
        "device_ranges": placed.filter(is_wait(pl.col("entry"))).select(
            "device_id", "start_ns", "end_ns", name="entry"
        ),
        "devices": pl.DataFrame({"device_id": [0], "vendor": ["intel"]}).head(ops.height),
    }
    return Imported(tables, Recording("onetrace", clock_offset_ns=0), quality)


def _read_text(data: bytes) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Work of devices and calls of the host, and how many lines of theirs are damaged."""
    parts, others = split_lines(data, *_WORK, *_CALLS)
    work, calls = unite(parts[: len(_WORK)]), unite(parts[len(_WORK) :])
    ran = work.rows.with_columns(work.text("queue"), work.text("entry"))
    called = calls.rows.with_columns(
        calls.text("entry"), start_ns=pl.col("end_ns") - pl.col("duration_ns")
    )
    torn = others.filter(pl.col("text").str.contains(r"Device Timeline \(|^<<<< \["))
    return _complete(ran), _complete(called), torn.height


def _read_chrome(data: bytes) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """The same of Chrome's events."""
    lines = pl.Series(data.decode(errors="replace").split("\n"), dtype=pl.String)
    found = lines.str.extract_groups(_EVENT).struct.unnest()
    is_event = found.get_column("pid").is_not_null()
    rest = lines.filter(~is_event).str.strip_chars()
    bad = rest.filter(~rest.str.contains(r'^(?:[\[\]]?|\{"ph":"M", .*\},?)$')).len()
    bad += int((lines.str.count_matches('"ph":"', literal=True) > 1).sum())  # two in a line
    bad += int(lines.str.contains(_BROKEN_PLACE).sum())
    number = pl.col("pid", "tid", "ts", "dur").cast(pl.Int64)
    events = (
        found.filter(is_event)
        .with_columns(number)
        .select(
            pl.all(), start_ns=pl.col("ts") * 1_000, end_ns=(pl.col("ts") + pl.col("dur")) * 1_000
        )
    )
    stage = pl.col("entry").str.extract(_STAGE.pattern, 2)
    is_work = (pl.col("tid") >= _LEAST_ADDRESS) | stage.is_not_null()
    work = events.filter(is_work & (stage.fill_null("Execution") == "Execution")).with_columns(
        pl.col("entry").str.replace(r" \(Execution\)$", ""), queue=pl.col("tid").cast(pl.String)
    )
    return _complete(work), _complete(events.filter(~is_work)), bad


def _complete(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of _COLUMNS, null where the frame lacks one; ends before starts left out."""
    whole = frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in _COLUMNS.items()
    )
    return whole.filter((pl.col("end_ns") >= pl.col("start_ns")) & (pl.col("start_ns") >= 0))


def _nest_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls as host_ops, with the id of the `work` that each launched."""
    is_driver = pl.col("entry").str.starts_with("ze")
    layer = pl.when(is_driver).then(pl.lit("driver")).otherwise(pl.lit("runtime"))
    return nest_ranges(
        calls.select("pid", "tid", "start_ns", "end_ns", "work", name="entry", layer=layer)
    )


def _find_launches(ops: pl.DataFrame, calls: pl.DataFrame) -> pl.Series:
    """The first call that names an operation's id and begins before it; text logs have none."""
    named = calls.filter(pl.col("work").is_not_null() & ~pl.col("work").is_in(["", "0"]))
    found = (
        ops.with_row_index("row")
        .select("row", "pid", "work", "start_ns")
        .join(named.select("pid", "work", "host_op_id", called="start_ns"), on=["pid", "work"])
        .filter(pl.col("called") <= pl.col("start_ns"))
        .sort("row", "called", "host_op_id")
        .unique("row", keep="first", maintain_order=True)
    )
    rows = pl.DataFrame({"row": pl.int_range(ops.height, dtype=pl.UInt32, eager=True)})
    return rows.join(found, on="row", how="left", maintain_order="left").get_column("host_op_id")


def _check_quality(ops: pl.DataFrame, calls: pl.DataFrame, *, is_chrome: bool) -> list[Quality]:
    notes = []
    if ops.is_empty():
        text = "no work of a device was recorded"
        notes.append(Quality("no_device_ops", "warning", text, None, _REMEDY))
    elif calls.is_empty() or not is_chrome:
        text = "what tied calls to the work that they launched was not recorded: who launched what"
        notes.append(Quality("no_launches", "warning", f"{text} is not known", None, _REMEDY))
    if is_chrome:
        text = "times are whole microseconds: short kernels and gaps are off by up to 1 µs each"
        notes.append(
            Quality("microsecond_clock", "info", text, None, "Record:  onetrace -t PROGRAM")
        )
    return notes
