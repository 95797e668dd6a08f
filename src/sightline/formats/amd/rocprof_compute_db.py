"""AMD rocprof-compute analyses: the SQLite database of its figures, kernel by kernel.

Format: ROCm/rocm-systems, projects/rocprofiler-compute, `analyze --output-format db`, schema 1.3:
kernels, dispatches with their times, and the values of every panel as means over a kernel's
dispatches. Panels have no raw counters: what they do not show is not known.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.amd._rocprof_compute import LAUNCH, MACHINE, make_devices, make_kernels

if TYPE_CHECKING:
    from sightline.formats._sqlite import SqliteFile

IMPORTER = Importer(
    name="rocprof_compute_db",
    label="AMD rocprof-compute analysis (SQLite)",
    strong=(rb"^SQLite format 3\x00.*CREATE TABLE compute_(?:kernel|metric|workload)",),
    weak=(),
    looks_like="SQLite with tables such as compute_kernel_metric_value",
    suffixes=(".db",),
    version=6,
    source="https://rocm.docs.amd.com/projects/rocprofiler-compute",
)

_AGAIN = "Write it again:  rocprof-compute analyze -p WORKLOAD --output-format db"
_LIGHT = "System Speed-of-Light"
# The launch, in the panel Wavefront.
_WAVEFRONT = {
    "VGPRs": "Arch_VGPR",
    "AGPRs": "Accum_VGPR",
    "SGPRs": "SGPR",
    "LDS Allocation": "LDS_Per_Workgroup",
    "Scratch Allocation": "Scratch_Per_Workitem",
    "Grid Size": "Grid_Size",
    "Workgroup Size": "Workgroup_Size",
}
_TOTALS = ("Avg", "Value", "Mean")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all kernels. Raises DamagedError where there is none."""
    # Every command asks all importers what they recognise: what reads is loaded for these only.
    from sightline.formats._sqlite import SqliteFile

    db = SqliteFile(source.plain_path(), source.given, _AGAIN)
    try:
        kernels = db.rows("compute_kernel", ["kernel_uuid", "kernel_name"])
        wanted = ("kernel_uuid", "dispatch_id", "gpu_id", "start_timestamp", "end_timestamp")
        dispatches = db.ints("compute_dispatch", wanted)
        values = db.rows(
            "compute_kernel_metric_value", ["kernel_uuid", "metric_uuid", "value_name", "value"]
        )
        names = db.rows("compute_metric_definition", ["metric_uuid", "name", "table_name", "unit"])
        notes: list[Quality] = []
        machine, host = _read_machine(db, notes)
        lost = dict(db.lost)
        notes += db.note_structure()
    finally:
        db.close()
    keys = {"kernel_uuid": pl.Int64}
    ran = dispatches.join(_typed(kernels, keys), on="kernel_uuid", how="inner").sort("dispatch_id")
    if ran.is_empty():
        raise DamagedError(
            f"cannot read {source.given}", why="it has no kernel dispatch", hint=_AGAIN
        )
    unnamed = dispatches.height - ran.height
    ran = ran.with_columns(kernel_id=pl.int_range(pl.len(), dtype=pl.Int64))
    metrics = _name_metrics(values, names)
    launch = _read_launch(metrics)
    text = "figures are means over the dispatches of a kernel, and are repeated for each of them"
    notes += [Quality("kernel_averages", "info", text), *_note_orphans(ran, values, names)]
    if unnamed > 0:
        text = "dispatches are of kernels that no table names: they are left out"
        notes.append(Quality("orphaned_dispatches", "warning", text, unnamed))
    notes += [
        Quality("damaged_table", "error", f"table {t} could only be read in part ({why})")
        for t, why in sorted(lost.items())
    ]
    return Imported(
        {
            "profiled_kernels": _make_kernels(ran, launch),
            "kernel_metrics": _make_metrics(ran, metrics, machine),
            "devices": make_devices(ran.get_column("gpu_id"), machine),
        },
        Recording(
            "rocprof-compute",
            tool_version=_text(machine.get("version")),
            host=host if options.keep_identity else None,
        ),
        notes,
    )


def _note_orphans(ran: pl.DataFrame, values: pl.DataFrame, names: pl.DataFrame) -> list[Quality]:
    """A note on values of kernels or figures that no table describes, or that are not numbers."""
    keys = {"kernel_uuid": pl.Int64, "metric_uuid": pl.Int64, "value": pl.Float64}
    typed = _typed(values, keys)
    known = _typed(names, {"metric_uuid": pl.Int64}).drop_nulls("metric_uuid")
    is_known = pl.col("kernel_uuid").is_in(
        ran.get_column("kernel_uuid").unique().implode()
    ) & pl.col("metric_uuid").is_in(known.get_column("metric_uuid").unique().implode())
    is_odd = typed.get_column("value").is_null() & values.get_column("value").is_not_null()
    lost = typed.select((~is_known).fill_null(True)).to_series() | is_odd
    if not lost.sum():
        return []
    text = "values are of kernels or figures that no table names, or no numbers: they are left out"
    return [Quality("orphaned_values", "warning", text, int(lost.sum()))]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _typed(frame: pl.DataFrame, dtypes: dict[str, Any]) -> pl.DataFrame:
    """The frame with columns of these types: null what is none, as 1.5 among whole numbers."""
    wrong = [c for c, t in dtypes.items() if t == pl.Int64 and frame.get_column(c).dtype.is_float()]
    whole = [pl.when(pl.col(c) == pl.col(c).floor()).then(pl.col(c)).alias(c) for c in wrong]
    return frame.with_columns(whole).with_columns(
        pl.col(c).cast(t, strict=False) for c, t in dtypes.items()
    )


def _read_machine(db: SqliteFile, notes: list[Quality]) -> tuple[dict[str, Any], str | None]:
    """What the workload's row says of the machine, and the host's name."""
    told = db.rows("compute_workload", ["sys_info_extdata"]).get_column("sys_info_extdata")
    for text in told:
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found:
            return found, _text(found.get("hostname"))
    if told.len():
        text = "what the database says of the machine cannot be read: its peaks are not known"
        notes.append(Quality("damaged_values", "warning", text, told.len()))
    return {}, None


def _name_metrics(values: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Values with the names of their panel and figure: kernel_uuid, panel, name, kind, value."""
    typed = _typed(
        values,
        {"kernel_uuid": pl.Int64, "metric_uuid": pl.Int64, "value": pl.Float64}
        | {"value_name": pl.String},
    )
    texts = {"metric_uuid": pl.Int64, "name": pl.String, "table_name": pl.String}
    known = _typed(names, texts | {"unit": pl.String})
    return (
        typed.join(known, on="metric_uuid", how="inner", maintain_order="left")
        .filter(pl.col("value").is_finite())
        .rename({"table_name": "panel", "value_name": "kind"})
    )


def _read_launch(metrics: pl.DataFrame) -> dict[int, dict[str, float]]:
    """Of each kernel what its launch needed, under the names of pmc_perf.csv."""
    found: dict[int, dict[str, float]] = {}
    rows = metrics.filter((pl.col("panel") == "Wavefront") & pl.col("kind").is_in(_TOTALS))
    for kernel, name, value in rows.select("kernel_uuid", "name", "value").iter_rows():
        if name in _WAVEFRONT and 0 <= value < 2**32:
            found.setdefault(kernel, {})[_WAVEFRONT[name]] = value
    return found


def _make_kernels(ran: pl.DataFrame, launch: dict[int, dict[str, float]]) -> pl.DataFrame:
    rows = [launch.get(kernel, {}) for kernel in ran.get_column("kernel_uuid")]

    def whole(name: str) -> pl.Series:
        values = [None if r.get(name) is None else round(r[name]) for r in rows]
        return pl.Series(name, values, dtype=pl.Int64)

    span = pl.col("end_timestamp") - pl.col("start_timestamp")
    return make_kernels(
        ran.with_columns(
            *(whole(n) for n in _WAVEFRONT.values()),
            name=pl.col("kernel_name").cast(pl.String),
            device_id="gpu_id",
            duration_ns=pl.when((span > 0) & (span < 2**61)).then(span),
        )
    )


def _make_metrics(
    ran: pl.DataFrame, metrics: pl.DataFrame, machine: dict[str, Any]
) -> pl.DataFrame:
    """A figure by its name; of other panels than the first with the panel's before it."""
    is_total = pl.col("kind").is_in(_TOTALS)
    is_peak = (pl.col("panel") == _LIGHT) & (pl.col("kind") == "Peak")
    figure = (
        pl.when(pl.col("panel") == _LIGHT)
        .then("name")
        .otherwise(pl.concat_str("panel", pl.lit(": "), "name"))
    )
    needs = metrics.filter((pl.col("panel") == "Wavefront") & is_total).select(
        "kernel_uuid",
        "value",
        metric=pl.col("name").replace_strict(_WAVEFRONT, default=None, return_dtype=pl.String),
        unit=pl.lit(None, pl.String),
        instance_name=pl.lit(None, pl.String),
    )
    figures = metrics.select(
        "kernel_uuid",
        "value",
        metric=pl.when(is_peak).then(pl.concat_str(figure, pl.lit(" (Peak)"))).otherwise(figure),
        unit="unit",
        instance_name=pl.when(~is_total & ~is_peak).then("kind"),
    )
    found = pl.concat([figures, needs.filter(pl.col("metric").is_in(LAUNCH))])
    joined = ran.select("kernel_id", "kernel_uuid").join(found, on="kernel_uuid", how="inner")
    known = {n: float(machine[n]) for n in MACHINE if isinstance(machine.get(n), int | float)}
    facts = pl.DataFrame(
        {"metric": list(known), "value": list(known.values())},
        schema={"metric": pl.String, "value": pl.Float64},
    )
    return pl.concat(
        [joined.drop("kernel_uuid"), ran.select("kernel_id").join(facts, how="cross")],
        how="diagonal",
    )
