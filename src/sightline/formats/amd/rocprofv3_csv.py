"""AMD rocprofv3's CSV files: one file a kind of record, or the folder that holds them all.

Format: ROCm/rocm-systems, rocprofiler-sdk documentation, "Using rocprofv3", "Output file fields".
Files of one process begin alike (`1234_kernel_trace.csv`, `1234_hip_api_trace.csv`); only together
do they say what launched a kernel, and what the agents are (`1234_agent_info.csv`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats import _rocm
from sightline.formats._text_damage import count_misspelt, note_names
from sightline.formats.amd._rocm_csv import note_odd_numbers, read_table
from sightline.formats.amd._rocm_programs import check_programs

IMPORTER = Importer(
    name="rocprofv3_csv",
    label="AMD rocprofv3 CSV files",
    strong=(
        rb'^(?:\xef\xbb\xbf)?"?(?:Guid"?,"?)?(?:Kind"?,"?(?:Agent_Id|Direction|Operation|Stream_Id)'
        rb'|Domain"?,"?Function|Correlation_Id"?,"?Dispatch_Id"?,"?Agent_Id)"?,',
        rb"^FOLDER\n(?:[^\n]*\n)*[^\n]*(?:kernel|hip_api|memory_copy)_trace\.csv ",
    ),
    weak=(),
    looks_like="CSV with Kind, Agent_Id or Domain, Function, or a folder of such files",
    suffixes=(".csv",),
    version=10,
    source=_rocm.SOURCE,
)

# A file's kind of record, by a column that no other kind has.
_KINDS = (
    ("counts", "Counter_Value"),
    ("dispatches", "Kernel_Name"),
    ("copies", "Direction"),
    ("allocations", "Allocation_Size"),
    ("agents", "Agent_Type"),
    ("regions", "Function"),
    ("scratch", "Alloc_Flags"),
)
# What else each kind of file has; damage may take one.
_TEXTS = {
    "counts": ("Agent_Id", "Kernel_Name", "Counter_Name"),
    "dispatches": ("Agent_Id",),
    "copies": ("Source_Agent_Id", "Destination_Agent_Id"),
    "allocations": ("Agent_Id", "Operation", "Address"),
    "agents": (),
    "regions": ("Domain",),
    "scratch": ("Kind", "Operation"),
}
for _kind in ("dispatches", "copies", "allocations", "regions", "scratch"):
    _TEXTS[_kind] += ("Start_Timestamp", "End_Timestamp")
# Columns in which each row has a number.
_COUNTED = ("Start_Timestamp", "End_Timestamp", "Counter_Value", "Allocation_Size")
_WHOLE = ("Start_Timestamp", "End_Timestamp", "Allocation_Size")
_TIMED = {"start_ns": "Start_Timestamp", "end_ns": "End_Timestamp"}
_PLACED = _TIMED | {
    "pid": "Process_Id",
    "tid": "Thread_Id",
    "queue_id": "Queue_Id",
    "stream_id": "Stream_Id",
    "correlation_id": "Correlation_Id",
}
# What a column of ours is in the files; before rocprofiler-sdk 1.1 some had other names.
_COLUMNS: dict[str, str | tuple[str, ...]] = {
    **_PLACED,
    **{f"workgroup_{axis.lower()}": f"Workgroup_Size_{axis}" for axis in "XYZ"},
    **{f"work_items_{axis.lower()}": f"Grid_Size_{axis}" for axis in "XYZ"},
    "lds_bytes": ("LDS_Block_Size", "Group_Segment_Size"),
    "scratch_bytes": ("Scratch_Size", "Private_Segment_Size"),
    "time_ns": "Start_Timestamp",
    "bytes": "Allocation_Size",
}
_RECORDS = ("_trace.csv", "_counter_collection.csv")  # what such files are called
_AGENT_FACTS = (
    "Cu_Count",
    "Max_Engine_Clk_Fcompute",
    "Max_Waves_Per_Cu",
    "Wave_Front_Size",
    "Lds_Size_In_Kb",
    "Vendor_Name",
    "Product_Name",
    "Name",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all records. Raises DamagedError where there is none.

    Raises InputError where a folder holds several programs.
    """
    notes: list[Quality] = []
    files: dict[str, list[pl.DataFrame]] = {kind: [] for kind, _ in _KINDS}
    named: list[tuple[str, pl.DataFrame]] = []
    for path in sorted(source.path.glob("*.csv")) if source.path.is_dir() else [source.path]:
        frame = read_table(Source(path, source.given, source.on_read), notes)
        kind = next((k for k, column in _KINDS if column in frame.columns), None)
        if kind is None and frame.height and path.name.endswith(_RECORDS):
            text = f"{path.name}: its header names no columns of records: they are left out"
            notes.append(Quality("missing_columns", "warning", text, frame.height))
        if kind is None or frame.is_empty():
            continue
        lacking = [c for c in _TEXTS[kind] if c not in frame.columns]
        if lacking:
            text = f"{path.name} has no column {', '.join(lacking)}"
            notes.append(Quality("missing_columns", "warning", text))
            frame = frame.with_columns(pl.lit(None, pl.String).alias(c) for c in lacking)
        notes += note_names(count_misspelt(frame.columns, _COUNTED))
        counted = [c for c in _COUNTED if c in frame.columns]
        notes += note_odd_numbers(frame, counted, path.name, _WHOLE)
        if kind == "agents":
            notes += _note_odd_agents(frame)
        elif kind in ("counts", "dispatches", "copies"):
            notes += _note_unnamed_agents(frame, path.name, kind)
        if "Process_Id" not in frame.columns:  # it is in the file's name, unless that was chosen
            found = re.match(r"(\d+)_", path.name)
            frame = frame.with_columns(Process_Id=pl.lit(found[1] if found else None, pl.String))
        files[kind].append(frame)
        named.append((path.name, frame))
    if not any(files[kind] for kind, _ in _KINDS if kind != "agents"):
        raise DamagedError(
            f"cannot read {source.given}",
            why="it holds no row of a kind of record that is known",
            hint="Record again:  rocprofv3 --sys-trace --output-format csv -- PROGRAM",
        )
    notes += check_programs(named, source.given)
    notes += _count_missing(files["dispatches"])
    by_type = any(
        bool(frame.get_column(column).str.contains("^GPU").any())
        for frames in files.values()
        for frame in frames
        for column in ("Agent_Id", "Source_Agent_Id")
        if column in frame.columns
    )
    records = _rocm.Records(
        dispatches=_unite([_list_dispatches(f) for f in files["dispatches"]], _DISPATCHES),
        copies=_unite([_list_copies(f) for f in files["copies"]], _COPIES),
        regions=_unite(
            [_list_regions(f, "Domain", "Function") for f in files["regions"]]
            + [_list_regions(f, "Kind", "Operation") for f in files["scratch"]],
            _REGIONS,
        ),
        allocations=_unite([_list_allocations(f) for f in files["allocations"]], _ALLOCATED),
        counts=_unite([_list_counts(f) for f in files["counts"]], _COUNTS),
        gpus=_list_gpus(files["agents"], by_type=by_type),
        threads=pl.DataFrame(schema={"pid": pl.Int64, "tid": pl.Int64}),
    )
    if records.dispatches.is_empty():  # counters were collected without a trace
        runs = [_list_dispatches(f) for f in files["counts"]]
        records.dispatches = _unite(runs, _DISPATCHES).unique(maintain_order=True)
    return _rocm.build_tables(records, Recording("rocprofv3"), notes)


def _note_odd_agents(frame: pl.DataFrame) -> list[Quality]:
    """A note on agents that are neither a CPU nor a GPU, or have no number."""
    is_known = pl.col("Agent_Type").is_in(["CPU", "GPU", "NIC", "UNK", "AIE"])
    if "Node_Id" in frame.columns:
        is_known &= pl.col("Node_Id").str.contains(r"^\d+$")
    odd = frame.height - frame.filter(is_known.fill_null(False)).height
    text = "agents have no kind or no number: they are left out"
    return [Quality("damaged_agents", "warning", text, odd)] if odd else []


def _count_missing(frames: list[pl.DataFrame]) -> list[Quality]:
    """A note where the numbers of a process's dispatches, which leave none out, show a selection.

    rocprofv3 counts dispatches of all agents (rocprofiler-sdk, `dispatch_id`: "starts at 1 and is
    incremented with each dispatch"); what `--kernel-include-regex` or an editor left out is
    missing.
    """
    missing = there = 0
    for frame in frames:
        if "Dispatch_Id" not in frame.columns:
            continue
        number = pl.col("Dispatch_Id").cast(pl.Int64, strict=False)
        of_each = frame.group_by("Process_Id").agg(
            n=number.n_unique(), span=number.max() - number.min() + 1
        )
        there += sum_column(of_each, "n")
        missing += sum_column(of_each.select(m=pl.col("span") - pl.col("n")), "m")
    if missing <= there:  # ours: fewer may be those of another program's filter; here most are gone
        return []
    text = (
        "of the program's kernels are not in the file, by their numbers: it is a selection, and "
        "what looks idle may be work that was left out"
    )
    remedy = "Record all of them:  rocprofv3 --sys-trace -- PROGRAM"
    return [Quality("missing_dispatches", "warning", text, missing, remedy)]


def _schema(numbers: Sequence[str], *texts: str) -> dict[str, Any]:
    return {**dict.fromkeys(numbers, pl.Int64), **dict.fromkeys(texts, pl.String)}


_DISPATCHES = _schema(_rocm.DISPATCH, "name", "mangled_name")
_COPIES = _schema(_rocm.COPY, "name")
_REGIONS = _schema(_rocm.REGION, "category", "name", "message")
_ALLOCATED = _schema(_rocm.ALLOCATION, "action", "level")
_COUNTS = _schema(("agent", "start_ns", "end_ns"), "metric") | {"value": pl.Float64}


def _unite(frames: list[pl.DataFrame], schema: dict[str, Any]) -> pl.DataFrame:
    """The frames as one, with these columns; those that a file lacks are null."""
    if not frames:
        return pl.DataFrame(schema=schema)
    return pl.concat(
        frame.select(
            (pl.col(c) if c in frame.columns else pl.lit(None)).cast(dtype).alias(c)
            for c, dtype in schema.items()
        )
        for frame in frames
    )


def _numbers(frame: pl.DataFrame, *wanted: str) -> list[pl.Expr]:
    """Our columns of numbers, of the files' own that are there."""
    found = []
    for name in wanted:
        theirs = _COLUMNS[name]
        for column in (theirs,) if isinstance(theirs, str) else theirs:
            if column in frame.columns:
                found.append(pl.col(column).cast(pl.Int64, strict=False).alias(name))
                break
    return found


def _note_unnamed_agents(frame: pl.DataFrame, name: str, kind: str) -> Iterator[Quality]:
    """Cells that should name an agent and do not: of which device their rows are is unknown.

    Kernels and their counters are of one; an end of a copy may have none.
    """
    for column in ("Agent_Id", "Source_Agent_Id", "Destination_Agent_Id"):
        if column not in frame.columns:
            continue
        cells = frame.get_column(column)
        if kind != "copies" and cells.null_count() < cells.len():
            cells = cells.fill_null("?")
        odd = int((~cells.str.contains(_AGENT)).sum() or 0)
        if odd:
            yield Quality("unnamed_agents", "warning", f"{name}: {column} names no agent", odd)


_AGENT = r"^(?:Agent |GPU |CPU )?\d+$"


def _agent(column: str) -> pl.Expr:
    """The number in "Agent 4", "GPU 0" or "4"; of a CPU, null."""
    return pl.col(column).str.extract(r"^(?:Agent |GPU )?(\d+)$").cast(pl.Int64, strict=False)


def _list_dispatches(frame: pl.DataFrame) -> pl.DataFrame:
    registers = [c for c in ("VGPR_Count", "Accum_VGPR_Count") if c in frame.columns]
    wanted = [n for n in _rocm.DISPATCH if n in _COLUMNS]
    return frame.select(
        *_numbers(frame, *wanted),
        _agent("Agent_Id").alias("agent"),
        pl.col("Kernel_Name").alias("name"),
        # Architectural and accumulation registers come of one file since MI200.
        *(
            [pl.sum_horizontal(pl.col(registers).cast(pl.Int64, strict=False)).alias("vgprs")]
            if registers
            else []
        ),
    )


def _list_copies(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(
        *_numbers(frame, "start_ns", "end_ns", "pid", "stream_id", "correlation_id"),
        _agent("Source_Agent_Id").alias("src_agent"),
        _agent("Destination_Agent_Id").alias("dst_agent"),
        pl.col("Direction").alias("name"),
    )


def _list_regions(frame: pl.DataFrame, category: str, name: str) -> pl.DataFrame:
    # Of a marker the name is what the program wrote. Scratch allocations have no size, only the
    # time that the runtime spends on them.
    return frame.select(
        *_numbers(frame, *_rocm.REGION),
        pl.col(category).alias("category"),
        pl.col(name).alias("name"),
    )


def _list_allocations(frame: pl.DataFrame) -> pl.DataFrame:
    word = pl.col("Operation").str.replace("^MEMORY_ALLOCATION_", "")
    action = word.str.replace("^VMEM_", "").replace("ALLOCATE", "ALLOC")
    virtual = pl.when(word.str.starts_with("VMEM_")).then(pl.lit("VIRTUAL"))
    # Addresses are written in hexadecimal; one beyond 63 bits is no address.
    digits = pl.col("Address").str.extract("^0x([0-9a-fA-F]{1,16})$")
    return frame.select(
        *_numbers(frame, "time_ns", "pid", "tid", "bytes", "correlation_id"),
        _agent("Agent_Id").alias("agent"),
        digits.str.to_integer(base=16, strict=False).alias("address"),
        action.alias("action"),
        virtual.otherwise(pl.lit("REAL")).alias("level"),
    )


def _list_counts(frame: pl.DataFrame) -> pl.DataFrame:
    if "Start_Timestamp" not in frame.columns:  # before ROCm 6.3: no time to place them at
        return pl.DataFrame(schema=_COUNTS)
    return frame.select(
        *_numbers(frame, "start_ns", "end_ns"),
        _agent("Agent_Id").alias("agent"),
        pl.col("Counter_Name").alias("metric"),
        pl.col("Counter_Value").cast(pl.Float64, strict=False).alias("value"),
    ).drop_nulls()


def _list_gpus(frames: list[pl.DataFrame], *, by_type: bool) -> dict[int, dict[str, Any]]:
    """GPUs by the number that the other files call them by: the node's, or theirs among GPUs."""
    gpus = []
    for row in (row for frame in frames for row in frame.iter_rows(named=True)):
        node = row.get("Node_Id") or ""
        if row["Agent_Type"] == "GPU" and node.isdecimal():
            said = {name.lower(): row.get(name) for name in _AGENT_FACTS}
            facts = {k: int(v) if v and v.isdecimal() else v for k, v in said.items()}
            gpus.append((int(node), _rocm.describe_agent(facts)))
    known = dict(sorted(gpus, key=lambda gpu: gpu[0]))
    return dict(enumerate(known.values())) if by_type else known
