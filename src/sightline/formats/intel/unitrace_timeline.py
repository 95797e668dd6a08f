"""Intel unitrace --device-timeline: when each kernel and copy was appended, submitted, begun, done.

Format: intel/pti-gpu, tools/unitrace: a line for each, of Level Zero (names in quotes) or OpenCL.
Times are in ns of the machine's monotonic clock; devices are the driver's handles.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._lines import Matched, read_lines
from sightline.formats._stacks import note_bad_lines
from sightline.formats.intel._unitrace import describe_entries, is_wait

IMPORTER = Importer(
    name="unitrace_timeline",
    label="Intel unitrace device timeline (text)",
    strong=(rb"(?:^|\n)Thread \d+ Device \w+ : [^\n]+ \[ns\] \d+ \(append\) \d+ \(submit\)",),
    weak=(),
    looks_like='lines such as Thread 1 Device 2 : "NAME" [ns] 3 (append) 4 (submit) …',
    suffixes=(".txt",),
    version=5,
    source="https://github.com/intel/pti-gpu/blob/master/tools/unitrace/README.md",
    covers=("unitrace_summary",),
)

_LINE = re.compile(
    r"Thread (\d{1,9}) Device (\w+) : (.+?) \[ns\] "
    r"(\d{1,18}) \(append\) (\d{1,18}) \(submit\) (\d{1,18}) \(start\) (\d{1,18}) \(end\)",
    re.ASCII,
)
_PATTERN = (
    "Thread {tid:int} Device {device:word} : {entry:text} [ns] "
    "{append_ns:int} (append) {submit_ns:int} (submit) {start_ns:int} (start) {end_ns:int} (end)"
)
_FIELDS = {
    "tid": pl.Int64,
    "device": pl.String,
    "entry": pl.String,
    "append_ns": pl.Int64,
    "submit_ns": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines that are whole. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    (matched,), others = read_lines(source, quality, _PATTERN)
    entries, bad = _list_entries(matched, others)
    whole = entries.filter(pl.col("end_ns") >= pl.col("start_ns"))
    bad += entries.height - whole.height
    if whole.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="it has no complete line")
    quality += note_bad_lines(bad, "entry of the device's timeline")
    text = "only the submission times of API calls were recorded, not what the host did before"
    remedy = "Record them, too:  unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM"
    quality.append(Quality("no_api_calls", "warning", text, None, remedy))
    devices = whole.get_column("device").unique(maintain_order=True)
    numbers = pl.Series(range(devices.len()), dtype=pl.Int64)
    placed = whole.with_columns(
        device_id=pl.col("device").replace_strict(devices, numbers, return_dtype=pl.Int64)
    )
    waits = placed.filter(is_wait(pl.col("entry"))).select(
        "device_id", pl.col("entry").alias("name"), "start_ns", "end_ns"
    )
    work = placed.filter(~is_wait(pl.col("entry")))
    ops = describe_entries(work.drop("device")).sort("start_ns", "end_ns", maintain_order=True)
    submits = _list_submits(ops)
    ops = ops.join(submits, on=["tid", "submit_ns"], how="left", maintain_order="left")
    tables = {
        "device_ops": ops.select(
            pl.exclude("tid", "submit_ns", "host_op_id"),
            device_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
            launch_id="host_op_id",
        ),
        "host_ops": submits.select(
            "host_op_id",
            "tid",
            layer=pl.lit("runtime"),
            name=pl.lit("submit"),
            start_ns="submit_ns",
            end_ns="submit_ns",
        ),
        "device_ranges": waits,
        "devices": pl.DataFrame({"device_id": numbers, "vendor": ["intel"] * devices.len()}),
    }
    return Imported(tables, Recording("unitrace"), quality)


def _list_entries(matched: Matched, others: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The entries in the lines' order, and how many of the other lines have none.

    Where two threads print at once, a line holds two entries, or one without its end.
    """
    whole = matched.rows.with_columns(matched.text("device"), matched.text("entry"))
    found = [
        (number, [match.groups() for match in _LINE.finditer(line)])
        for number, line in others.iter_rows()
    ]
    torn = pl.DataFrame(
        [(number, *entry) for number, entries in found for entry in entries],
        schema={"line": pl.Int64, **dict.fromkeys(_FIELDS, pl.String)},
        orient="row",
    )
    entries = pl.concat([whole, torn.cast(_FIELDS)], how="diagonal")  # type: ignore[arg-type]
    bad = sum(not entries for _, entries in found)
    return (
        entries.sort("line", maintain_order=True)
        .drop("line", "append_ns")
        .with_columns(pl.col("entry").str.strip_chars('"')),
        bad,
    )


def _list_submits(ops: pl.DataFrame) -> pl.DataFrame:
    """The moments at which a thread handed work to the driver: one call for all that it held."""
    found = ops.select("tid", "submit_ns").unique().sort("tid", "submit_ns")
    return found.with_columns(host_op_id=pl.int_range(pl.len(), dtype=pl.Int64))
