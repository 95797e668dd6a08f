"""Reads a workload's CSV files: dispatches, and what each pass counted of them."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from sightline.core.model.declare import Imported, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import is_odd, read_number
from sightline.formats._text_damage import count_misspelt, note_names
from sightline.formats.amd._rocm_csv import note_odd_numbers, read_table
from sightline.formats.amd._rocprof_compute import LAUNCH, MACHINE, make_devices, make_kernels

_AGAIN = "Record again:  rocprof-compute profile -n NAME -- PROGRAM"
# Columns that are no counters; joined tables have them again with a number behind.
_FACTS = {
    "dispatch_id", "gpu_id", "queue_id", "queue-id", "queue-index", "pid", "tid", "grid_size",
    "workgroup_size", "lds_per_workgroup", "scratch_per_workitem", "arch_vgpr", "accum_vgpr",
    "sgpr", "wave_size", "kernel_name", "start_timestamp", "end_timestamp", "correlation_id",
    "kernel_id", "sig", "obj", "dispatchns", "completens", "xcc_index", "counter_name",
    "counter_value", "node", "process_id", "thread_id",
}  # fmt: skip
_ACCUMULATED = "SQ_ACCUM_PREV_HIRES"
# Of another pass than the counters in pmc_perf.csv: only these are asked for together with it.
_OF_THE_PASS = ("GRBM_GUI_ACTIVE", "SQ_IFETCH")
_INSTANCE = re.compile(r"^(.+)\[(\d{1,6})\]$")
_MAX_VALUE = 2.0**62


def read_workload(source: Source, options: ImportOptions) -> Imported:
    """Read all dispatches with their counters. Raises DamagedError where there is none."""
    notes: list[Quality] = []
    files = _list_files(source)
    tables = {
        name: _add_missing(
            read_table(Source(path, source.given, source.on_read), notes, _is_counter)
        )
        for name, path in files.items()
        if name != "sysinfo"
    }
    # The joined table has every counter; where a run was stopped before, the passes have them.
    main = {n: t for n, t in tables.items() if n == "pmc_perf"} or {
        n: t for n, t in tables.items() if not _is_level(n) and n != "timestamps"
    }
    main = main or {n: t for n, t in tables.items() if not _is_level(n)} or tables
    dispatches = _list_dispatches(list(main.values()), notes)
    if "timestamps" in tables and not dispatches.get_column("duration_ns").count():
        dispatches = _add_times(dispatches, _list_dispatches([tables["timestamps"]], notes))
    if dispatches.is_empty():
        raise DamagedError(
            f"cannot read {source.given}", why="it has no row of a dispatch", hint=_AGAIN
        )
    machine = _read_machine(files.get("sysinfo"), source, notes)
    if not machine:
        text = "sysinfo.csv is missing: the GPU's peaks are not known, so no share of a peak is"
        hint = "Give the workload's folder."
        notes.append(Quality("no_machine", "warning", text, None, hint))
    kernels = dispatches.select("dispatch", kernel_id=pl.int_range(pl.len(), dtype=pl.Int64))
    parts = [
        *(_list_counters(t, kernels) for t in main.values()),
        *(_list_levels(n, t, kernels) for n, t in tables.items() if _is_level(n)),
        _list_launch(dispatches),
        _list_machine(dispatches, machine),
    ]
    return Imported(
        {
            "profiled_kernels": make_kernels(_name_kernels(dispatches)),
            "kernel_metrics": _make_metrics(parts),
            "devices": make_devices(dispatches.get_column("GPU_ID"), machine),
        },
        Recording(
            "rocprof-compute",
            tool_version=machine.get("rocm_version"),
            host=machine.get("hostname") if options.keep_identity else None,
        ),
        notes,
    )


def _list_files(source: Source) -> dict[str, Path]:
    """The files of a workload by what they are called; of a single file, itself."""
    if source.path.is_file():
        return {source.path.name.partition(".")[0]: source.path}
    found = {}
    for path in sorted(source.path.iterdir()):
        stem = path.name.partition(".")[0]
        if path.name.endswith((".csv", ".csv.gz")) and re.match(
            r"(?:pmc_perf(?:_\d+)?|timestamps|sysinfo|SQ_\w+)$", stem
        ):
            found[stem] = path
    return found


def _is_level(name: str) -> bool:
    return name.startswith("SQ_")


def _add_missing(table: pl.DataFrame) -> pl.DataFrame:
    """The table with what names a dispatch; damage may take a column."""
    known = {column.lower(): column for column in reversed(table.columns)}
    wanted = ("Dispatch_ID", "GPU_ID", "Kernel_Name", "Grid_Size", "Workgroup_Size")
    texts = (*wanted, *LAUNCH, "Start_Timestamp", "End_Timestamp", "Wave_Size")
    named = {known[w.lower()]: w for w in texts if w.lower() in known}
    lacking = [w for w in texts if w.lower() not in known]
    clash = [n for n in lacking if n in table.columns]
    return (
        table.drop(clash)
        .rename({old: new for old, new in named.items() if old != new and new not in table.columns})
        .with_columns(pl.lit(None, pl.String).alias(name) for name in lacking)
    )


def _list_dispatches(tables: list[pl.DataFrame], notes: list[Quality]) -> pl.DataFrame:
    """Each dispatch once, in order: its id, name, device, sizes and duration in ns.

    Times come of the first table that has them whole: means of several passes have decimals, and
    what a spreadsheet saved has lost its last digits, which makes every kernel 0 ns long.
    """
    columns = ("GPU_ID", "Grid_Size", "Workgroup_Size", *LAUNCH)
    rows = pl.concat(
        table.select(
            dispatch=_whole("Dispatch_ID"),
            name="Kernel_Name",
            **{c: _size(c) for c in columns},
            # Their difference is exact though their values are not: see _whole for the digits.
            duration_ns=_span(pl.col("Start_Timestamp"), pl.col("End_Timestamp")),
            lost=pl.col("Start_Timestamp").str.contains("[eE]"),
        )
        for table in tables
        if "Counter_Name" in table.columns or "Grid_Size" in table.columns
    )
    nameless = rows.filter(~(pl.col("dispatch") >= 0).fill_null(False)).height
    # Of the columns that a table has; one that it lacks is null throughout.
    sizes = pl.concat(
        table.select(pl.col(c).cast(pl.String) for c in columns)
        for table in tables
        if "Counter_Name" in table.columns or "Grid_Size" in table.columns
    )
    notes += note_odd_numbers(sizes, columns, "a table of dispatches")
    if nameless:
        text = "rows have no number of a dispatch: they were left out"
        notes.append(Quality("damaged_values", "warning", text, nameless))
    rows = rows.filter(pl.col("dispatch") >= 0)
    if rows.get_column("lost").any() and not any(n.kind == "rounded_times" for n in notes):
        text = "times were saved in a spreadsheet, which rounded them: durations are not known"
        notes.append(Quality("rounded_times", "warning", text, None, _AGAIN))
    return (
        rows.group_by("dispatch", maintain_order=True)
        .agg(pl.all().exclude("lost").drop_nulls().first())
        .sort("dispatch")
    )


def _add_times(dispatches: pl.DataFrame, timed: pl.DataFrame) -> pl.DataFrame:
    """The dispatches with the durations of a run without counters, where it had the same ones."""
    if not dispatches.get_column("dispatch").equals(timed.get_column("dispatch")):
        return dispatches
    return dispatches.with_columns(timed.get_column("duration_ns"))


def _whole(column: str) -> pl.Expr:
    """A whole number; where passes were averaged it is written with decimals."""
    text = pl.col(column)
    whole = text.cast(pl.Int64, strict=False)
    rounded = text.cast(pl.Float64, strict=False)
    fits = rounded.is_between(-_MAX_VALUE, _MAX_VALUE)
    return pl.coalesce(whole, pl.when(fits).then(rounded.round()).cast(pl.Int64, strict=False))


def _size(column: str) -> pl.Expr:
    """A count or size; what is negative or beyond 32 bits is damage."""
    value = _whole(column)
    return pl.when(value.is_between(0, 2**32)).then(value)


def _span(start: pl.Expr, end: pl.Expr) -> pl.Expr:
    """end - start, rounded to ns: of whole digits and of decimals apart, so that none is lost."""

    def split(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
        digits = text.str.extract(r"^(\d{1,18})(?:\.\d+)?$").cast(pl.Int64, strict=False)
        rest = text.str.extract(r"^\d+(\.\d+)$").cast(pl.Float64, strict=False).fill_null(0.0)
        return digits, rest

    (first, first_rest), (last, last_rest) = split(start), split(end)
    span = (last - first) + (last_rest - first_rest).round().cast(pl.Int64)
    return pl.when(span > 0).then(span)


def _is_counter(column: str) -> bool:
    plain = re.sub(r"_\d{1,4}$", "", column).lower()
    return plain not in _FACTS and column.lower() not in _FACTS and column != "duration_ns"


# What was counted of a kernel. Names are categories: there are hundreds, and millions of values.
_COUNTED = {"kernel_id": pl.Int64(), "column": pl.Categorical(), "value": pl.Float64()}


def _finish(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of kernel_id, column and value without what is not a number."""
    numbers = rows.select(pl.col(name).cast(t, strict=False) for name, t in _COUNTED.items())
    is_known = pl.col("value").is_finite() & pl.col("kernel_id").is_not_null()
    kept = numbers.select(is_known.fill_null(False)).to_series()
    return numbers if kept.all() else numbers.filter(kept)


def _unpivot(table: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """All values of some columns, one column after the other, as _COUNTED."""
    rows = table.height * len(columns)
    place = pl.int_range(rows, dtype=pl.UInt32, eager=True)
    names = pl.Series(columns, dtype=pl.Categorical)
    values = [table.get_column(c).cast(pl.Float64, strict=False) for c in columns]
    return _finish(
        pl.DataFrame(
            {
                "kernel_id": table.get_column("kernel_id").gather(place % max(table.height, 1)),
                "column": names.gather(place // max(table.height, 1)),
                "value": pl.concat(values) if values else pl.Series([], dtype=pl.Float64),
            }
        )
    )


def _list_counters(table: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """What was counted of each dispatch: a column each, or a row each since ROCm 7."""
    rows = table.with_columns(dispatch=_whole("Dispatch_ID")).join(
        kernels, on="dispatch", maintain_order="left"
    )
    if {"Counter_Name", "Counter_Value"} <= set(table.columns):
        told = rows.select("kernel_id", column="Counter_Name", value="Counter_Value")
        found = _finish(told.drop_nulls("column"))
    else:
        found = _unpivot(rows, [c for c in table.columns if _is_counter(c)])
        if rows.get_column("kernel_id").is_unique().all():
            return found
    return found.unique(["kernel_id", "column"], keep="first", maintain_order=True)


def _list_levels(name: str, table: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """The counters of a pass that added a level up in each cycle, under the names of ROCm 7.

    What was counted beside it is needed from the same pass: passes differ in length.
    """
    counted = _list_counters(table, kernels)
    names = {_ACCUMULATED: f"{name}_ACCUM", **{n: f"{n}@{name}" for n in _OF_THE_PASS}}
    column = pl.col("column").cast(pl.String)
    renamed = counted.filter(column.is_in(list(names))).with_columns(
        column.replace(names).cast(pl.Categorical)
    )
    return pl.concat([renamed, counted.filter(~column.is_in(list(names)))])


def _list_launch(dispatches: pl.DataFrame) -> pl.DataFrame:
    kernels = dispatches.with_columns(kernel_id=pl.int_range(pl.len(), dtype=pl.Int64))
    return _unpivot(kernels, list(LAUNCH))


def _list_machine(dispatches: pl.DataFrame, machine: dict[str, str]) -> pl.DataFrame:
    known = {n: machine[n] for n in MACHINE if n in machine}
    facts = pl.DataFrame(
        {"column": list(known), "value": list(known.values())},
        schema={"column": pl.String, "value": pl.String},
    )
    kernels = dispatches.select(kernel_id=pl.int_range(pl.len(), dtype=pl.Int64))
    return _finish(kernels.join(facts, how="cross"))


def _read_machine(path: Path | None, source: Source, notes: list[Quality]) -> dict[str, str]:
    """What sysinfo.csv says of the machine, by its own names; empty where it is not there."""
    if path is None:
        return {}
    table = read_table(Source(path, source.given, source.on_read), notes)
    row = table.row(0, named=True) if table.height else {}
    notes += note_names(count_misspelt(list(row), MACHINE))
    odd = sum(_is_damaged(row[name] or "") for name in MACHINE if name in row)
    if odd:
        text = f"{path.name}: what it says of the GPU is not a number: it is left out"
        notes.append(Quality("damaged_values", "warning", text, odd))
    return {name: value for name, value in row.items() if value not in (None, "", "0")}


def _is_damaged(text: str) -> bool:
    """Whether a fact of the GPU is neither a number nor a word for none."""
    found = read_number(text)
    return is_odd(text) or (found is not None and found[1] != "")


def _name_kernels(dispatches: pl.DataFrame) -> pl.DataFrame:
    """The dispatches as kernels, without what the linker adds to their names."""
    return dispatches.with_columns(
        pl.col("name").str.replace(r"(?: \[clone \.kd\]| ?\(?\.kd\)?)$", "").str.strip_chars(),
        kernel_id=pl.int_range(pl.len(), dtype=pl.Int64),
        device_id="GPU_ID",
    )


def _make_metrics(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Table `kernel_metrics`, each metric of a kernel once: TCC_HIT[3] is instance 3 of TCC_HIT."""
    rows = pl.concat(parts)
    each = [part.get_column("column").unique() for part in parts]
    text, name = pl.col("column").cast(pl.String), _INSTANCE.pattern
    names = (
        pl.concat(each)
        .unique()
        .to_frame()
        .with_columns(
            metric=pl.coalesce(text.str.extract(name, 1), text),
            instance_id=text.str.extract(name, 2).cast(pl.Int64, strict=False),
        )
    )
    whole = pl.col("value").cast(pl.Int64, strict=False)
    is_whole = (whole.cast(pl.Float64) == pl.col("value")) & whole.is_between(-(2**53), 2**53)
    metrics = rows.join(names, on="column", how="left", maintain_order="left").select(
        "kernel_id",
        "metric",
        "instance_id",
        "value",
        unit=pl.lit(None, pl.String),
        value_int=pl.when(is_whole).then(whole),
    )
    # Of each part a kernel has a column once; parts may have the same, and names mean the same.
    different = names.select("metric", "instance_id").n_unique()
    if different == sum(column.len() for column in each):
        return metrics
    by = ["kernel_id", "metric", "instance_id"]
    return metrics.unique(by, keep="first", maintain_order=True)
