"""What `nsys stats`, `nsys profile --stats=true` and `nvprof` print, wherever it was pasted.

The tables may stand in a program's log, a batch job's output, a Markdown page, a notebook or the
comments of a source file, printed or as CSV; several runs in one text are kept apart.

Formats: Nsight Systems User Guide, "Report Scripts" (2019 to 2025); CUDA Profiler User's Guide,
"nvprof", Output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._ncu import make_frame
from sightline.formats._notebook import unpack_notebook
from sightline.formats._pasted_lines import list_lines
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._summaries import KERNEL, import_sums, note_several
from sightline.formats.nvidia._ncu_pages.rows import KernelRows
from sightline.formats.nvidia._ncu_pages.text_page import HEADER, PATTERN, list_records
from sightline.formats.nvidia._nvprof import make_tables, note_no_host
from sightline.formats.nvidia.nvidia_text.counters import make_tables as make_counter_tables
from sightline.formats.nvidia.nvidia_text.nsys_parts import NsysReader
from sightline.formats.nvidia.nvidia_text.nvprof_parts import DENIED, NOTHING, NvprofReader
from sightline.formats.nvidia.nvidia_text.parts import MOST_PARTS, Part
from sightline.formats.nvidia.nvidia_text.scan import (
    SIZES,
    SUMS,
    TOTALS,
    TRACE,
    Found,
    is_headless,
    list_tables,
)
from sightline.formats.nvidia.nvidia_text.sum_tables import join_sizes

# Between cells: gaps, the bars of a Markdown table, or the commas of CSV.
_GAP = rb'(?:[ \t]+|[ \t]*\|[ \t]*|"?,"?)'
_HEADER = rb"[^\n]{0,400}\n(?:[^\n]{0,4000}\n){0,3}?[ \t|/#*>\"]{0,60}"
_TIME = rb"[\d.]{1,12}(?:ns|us|ms|s)"
IMPORTER = Importer(
    name="nvidia_text",
    label="What nsys stats or nvprof printed (text)",
    strong=(
        # A header of nsys with a row of numbers below it.
        rb"Time ?\(%\)" + _GAP + rb"Total Time(?: \(\w{1,12}\))?" + _GAP
        + rb"(?:Num Calls|Calls|Instances|Count|Operations|Category)" + _HEADER
        + rb"\d{1,3}\.\d{1,4}" + _GAP + rb"[\d,]{1,30}",
        rb"Total(?: \(\w{1,8}\))?" + _GAP + rb"(?:Count|Operations)" + _GAP + rb"A(?:vg|verage)\b"
        + _HEADER + rb"[\d,]{1,30}(?:\.\d{1,6})?" + _GAP + rb"[\d,]{1,20}" + _GAP,
        # What nsys writes as CSV, though its only row be cut.
        rb'\A(?:\xef\xbb\xbf)?\s*"?Time ?\(%\)"?,"?Total Time(?: ?\(\w{1,12}\))?"?,',
        # A header of nvprof with a row of times below it, or that there is none.
        rb"Time\(%\) +Time +Calls +Avg" + _HEADER
        + rb"(?:[A-Z][\w ()]{1,30}:)? *[\d.]{1,6}%? +" + _TIME + rb" ",
        rb'"Type","Time\(%\)","Time","Calls",[^\n]*\n,%,',
        rb'\A(?:\xef\xbb\xbf)?(?:"?Type"?,)?"?Time\(%\)"?,"?Time"?,"?Calls"?,"?Avg"?,[^\n]*\n[^\n]*\d',
        # A trace of nvprof, and of nsys.
        rb"Start +Duration +(?:Grid Size|Name)" + _HEADER + _TIME + rb" +[\d.-]",
        rb"Start \(\w{1,8}\) {1,20}(?:End \(\w{1,8}\) {1,20})?Duration \(\w{1,8}\)  " + _HEADER
        + rb"[\d,.]{1,30}  ",
        # Counters of nvprof, printed and as CSV.
        rb"Invocations +(?:Event|Metric) Name .{0,400}?\n *\d{1,15} +[a-z]\w{1,60} ",
        rb'"Kernel","Invocations","(?:Event|Metric) Name",[^\n]*\n',
        rb"==\d{1,10}== Profiling result:\r?\n[ \t]*No kernels were profiled",
    ),
    weak=(),
    looks_like="tables with Time (%), Total Time (ns), Instances …; or Type, Time(%), Time, Calls",
    suffixes=(".txt", ".log", ".out", ".csv"),
    version=5,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html#report-scripts",
    covers=("ncu_csv", "nvidia_smi_table", "key_averages"),
    in_logs=(b"Total Time", b"Time(%)", b"== Profiling result:", b"Duration  ", b"Invocations"),
)  # fmt: skip


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all tables of all runs. Raises DamagedError where none has a row."""
    notes: list[Quality] = []
    parts: list[Part] = []
    nsys, nvprof = NsysReader(parts), NvprofReader(parts)
    lost = 0
    text = unpack_notebook(read_text(source, notes))
    for item in list_tables(list_lines(text)):
        if not isinstance(item, Found):
            lost += is_headless(item[1])
            nsys.take_line(item[1])
            nvprof.take_line(item[1])
        elif item.kind in (SUMS, SIZES, TRACE, TOTALS):
            nsys.take_table(item)
            lost += item.lost
        else:
            nvprof.take_table(item)
        if len(parts) > MOST_PARTS:
            break
    known = [part for part in parts if part.sums or part.notes or part.counters or part.is_traced]
    if not known:
        raise DamagedError(f"cannot read {source.given}", why="no table of it has a whole row")
    rows = join_sizes(
        {**row, "part": number if len(known) > 1 else None, "command": part.command}
        for number, part in enumerate(known)
        for row in part.sums
    )
    notes += [
        *note_bad_lines(lost + nsys.lost + nvprof.lost, "row of a table"),
        *_list_notes(known),
    ]
    tool = " and ".join(sorted({part.tool for part in known}))
    traced = [part for part in known if part.is_traced]
    counted = [part for part in known if part.counters]
    if traced:
        read = _import_trace(traced[-1], notes)
        read.tables["call_sums"] = import_sums(rows, tool, []).tables["call_sums"]
    elif counted and not rows:
        read = Imported({}, Recording(tool), notes)
    else:
        read = import_sums(rows, tool, notes)
    if counted:
        read.tables |= _import_counters(counted[-1], read.tables)
    if re.search(PATTERN, text.encode()):
        read.tables |= _import_profiled(text, read.tables)
    return Imported(read.tables, Recording(tool), read.quality)


def _import_counters(part: Part, others: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """What was counted of kernels, with how long one takes where sums of the same run say so."""
    means = {
        row["name"]: row["duration_ns"] // row["calls"]
        for row in part.sums
        if row.get("category") == KERNEL and row["calls"] and row["duration_ns"]
    }
    devices = [
        {"device_id": n, "vendor": "nvidia", "name": name} for n, name in part.devices.items()
    ]
    tables = make_counter_tables(part.counters, means)
    return tables if "devices" in others else {**tables, "devices": make_frame("devices", devices)}


def _import_profiled(text: str, others: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """What ncu printed between or behind the tables: kernels, metrics and its rules."""
    rows = KernelRows()
    rows.start(HEADER)
    for record in list_records(text):
        rows.add(record)
    tables = rows.tables() if rows.kernels else {}
    # A timeline's devices have other numbers, and more is known of them there.
    return {name: table for name, table in tables.items() if name not in others}


def _import_trace(part: Part, notes: list[Quality]) -> Imported:
    """The timeline of a run, of nvprof or nsys."""
    if part.traces.ops or part.traces.calls:
        notes += note_bad_lines(part.traces.lost, "row of a trace")
        return part.traces.build(notes)
    tables = make_tables(part.ops, part.calls, part.devices)
    if part.ops and not part.calls:
        notes.append(note_no_host())
    return Imported(tables, Recording(part.tool), notes)


def _list_notes(parts: list[Part]) -> list[Quality]:
    """What limits the conclusions: several runs, none with kernels, counters that were denied."""
    notes = note_several(len(parts))
    last = parts[-1]
    if NOTHING in last.notes:
        text = "the profiler saw no kernel: the program used no GPU, failed, or ran in a child"
        remedy = (
            "See whether the program reports an error of CUDA; GPUs from compute capability 8.0 on "
            "need Nsight Systems:  sightline run -- COMMAND"
        )
        notes.append(Quality(NOTHING, "warning", text, None, remedy))
    if DENIED in last.notes:
        text = "the driver lets no ordinary user read counters (ERR_NVGPUCTRPERM)"
        remedy = (
            "Ask for NVreg_RestrictProfilingToAdminUsers=0, or record as root: "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        )
        notes.append(Quality(DENIED, "warning", text, None, remedy))
    return notes
