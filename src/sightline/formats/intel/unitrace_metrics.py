"""Intel unitrace's hardware metrics: `--metric-query`, a row a kernel, or `--metric-sampling`.

Format: intel/pti-gpu, tools/unitrace, ze_metrics.h: for each device a heading, the metrics' names
with their units in brackets, and rows of a kernel and numbers. Names of kernels have commas, too.
A sampled kernel has a row for each sample; they are added up, means weighted by time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._samples import read_number
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.intel._unitrace import split_shape

IMPORTER = Importer(
    name="unitrace_metrics",
    label="Intel unitrace hardware metrics (CSV)",
    strong=(rb"(?:^|\n)[ \t]*Kernel,[ \t]*(?:GlobalInstanceId|Device),[^\n]*GpuTime\[ns\]",),
    weak=(),
    looks_like="CSV with the columns Kernel, GlobalInstanceId, SubDeviceId, GpuTime[ns]",
    suffixes=(".csv", ".txt"),
    version=4,
    source="https://github.com/intel/pti-gpu/blob/master/tools/unitrace/README.md",
    covers=("unitrace_summary",),
)

_HEADING = re.compile(r"^=+ Device #(\d{1,4}) Metrics =+$")
_METRIC = re.compile(r"^(.+?)\[(.+)\]$")
_PLACE = ("Device", "GlobalInstanceId", "SubDeviceId")
_TIME = "GpuTime"
# Units in which a kernel's samples add up; the others are means, ratios and states.
_SUMS = ("ns", "cycles", "events", "bytes", "threads", "messages")
# How the report was taken, and no measurement of the kernel.
_REPORT = re.compile(r"^(?:Query|Report|MidQuery|Overrun|StreamMarker|ResultUncertainty)")
_BASE = {"MHz": ("1/s", 1e6)}
_KEY = ["kernel", *_PLACE]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows. Raises DamagedError where none is whole."""
    quality: list[Quality] = []
    sections = list(_list_sections(read_text(source, quality)))
    bad = sum(section[1] for section in sections)
    cells = pl.concat([section[0] for section in sections]) if sections else _make_cells([])
    if cells.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="no row of metrics is whole")
    quality += note_bad_lines(bad, "rows of metrics")
    merged = _merge_samples(cells)
    kernels = merged.select(_KEY).unique(maintain_order=True).with_row_index("kernel_id")
    metrics = merged.join(kernels, on=_KEY, nulls_equal=True, maintain_order="left")
    if merged.get_column("rows").max() != 1:
        text = "kernels were sampled: metrics are sums of their samples, or means weighted by time"
        quality.append(Quality("sampled_metrics", "info", text))
    told = "Intel's metrics are shown (sightline tables kernel_metrics); no rule judges them yet"
    quality.append(Quality("metrics_not_judged", "info", told))
    tables = {
        "profiled_kernels": _describe_kernels(kernels, metrics),
        "kernel_metrics": _finish_metrics(metrics),
        "devices": pl.DataFrame(
            {"device_id": kernels.get_column("Device").unique().sort()}
        ).with_columns(vendor=pl.lit("intel")),
    }
    return Imported(tables, Recording("unitrace"), quality)


def _list_sections(text: str) -> Iterator[tuple[pl.DataFrame, int]]:
    """The rows below each line of names, as cells, and how many of them are damaged."""
    device, names = 0, [""]
    rows: list[list[str]] = []
    bad = 0
    for line in text.splitlines():
        plain = line.strip().rstrip(",")
        first = plain.partition(",")[0]
        if heading := _HEADING.match(plain):
            device = int(heading[1])
        elif first == "Kernel" and "[" in plain:
            yield _name_cells(rows, names, device) if rows else _make_cells([]), bad
            rows, bad = [], 0
            names = [name.strip() for name in plain.split(",")]
            bad += any(name.isdecimal() for name in names)  # a row stands behind them
        elif plain.count("],") > 1 and not re.search(r"\d", plain.replace("[", "").split(",")[0]):
            bad += 1  # names of columns, and not the first
        elif first == "Kernel" or (len(names) > 1 and plain and "," not in plain):
            bad += not plain.startswith("=")  # a line of names, or of a kernel, that is cut
        elif len(names) > 1 and "," in plain and not plain.startswith("="):
            parts = plain.rsplit(",", len(names) - 1)
            if len(parts) != len(names):
                bad += 1
                continue
            rows.append(parts)
            # A kernel ends with its shape: what follows is a cell more than there are names.
            bad += "]," in parts[0] or any(map(_is_no_number, parts[1:]))
    yield _name_cells(rows, names, device) if rows else _make_cells([]), bad


def _is_no_number(cell: str) -> bool:
    found = read_number(cell)
    return found is None or bool(found[1])  # its units stand above


def _name_cells(rows: list[list[str]], names: list[str], device: int) -> pl.DataFrame:
    """Rows of a section as one row for each measurement: kernel, place, metric, unit, value."""
    unique = [f"{name}\0{n}" if name in names[:n] else name for n, name in enumerate(names)]
    table = pl.DataFrame(rows, schema=dict.fromkeys(unique, pl.String), orient="row")
    numbers = table.select(
        pl.col("Kernel").str.strip_chars(' "').alias("kernel"),
        *(
            (pl.col(c) if c in unique else pl.lit(None, pl.String))
            .str.strip_chars()
            .cast(pl.Int64, strict=False)
            .alias(c)
            for c in _PLACE
        ),
    ).with_columns(pl.col("Device").fill_null(device))
    measured = [c for c in unique[1:] if c not in _PLACE and not _REPORT.match(c)]
    values = table.select(
        pl.col(c).str.strip_chars().cast(pl.Float64, strict=False) for c in measured
    )
    index = [f"\0{c}" for c in _KEY]
    wide = pl.concat(
        [numbers.rename(dict(zip(_KEY, index, strict=True))), values], how="horizontal"
    )
    named = {c: (m[1], m[2]) if (m := _METRIC.match(c)) else (c, None) for c in measured}
    long = wide.with_row_index("\0row").unpivot(
        measured, index=["\0row", *index], variable_name="column", value_name="value"
    )
    weights = wide.get_column(next((c for c, (n, _) in named.items() if n == _TIME), measured[0]))
    return _make_cells(
        long.rename(dict(zip(index, _KEY, strict=True)))
        .with_columns(
            metric=pl.col("column").replace_strict({c: n for c, (n, _) in named.items()}),
            unit=pl.col("column").replace_strict(
                {c: u for c, (_, u) in named.items()}, return_dtype=pl.String
            ),
            weight=weights.gather(long.get_column("\0row")),
        )
        .filter(pl.col("value").is_finite())
    )


def _make_cells(frame: pl.DataFrame | list[None]) -> pl.DataFrame:
    types = {"kernel": pl.String, **dict.fromkeys(_PLACE, pl.Int64), "metric": pl.String,
             "unit": pl.String, "value": pl.Float64, "weight": pl.Float64}  # fmt: skip
    if isinstance(frame, list):
        return pl.DataFrame(schema=types)
    return frame.select(pl.col(c).cast(t) for c, t in types.items())


def _merge_samples(cells: pl.DataFrame) -> pl.DataFrame:
    """One value for each metric of each execution; `rows` says of how many samples."""
    # Without a number, executions of a kernel cannot be told apart: each row is one.
    value, weight = pl.col("value"), pl.col("weight").fill_null(0).clip(0)
    numbered = cells.with_columns(
        GlobalInstanceId=pl.coalesce(
            "GlobalInstanceId", -1 - pl.int_range(pl.len()).over([*_KEY, "metric"])
        )
    )
    mean = (
        pl.when(weight.sum() > 0)
        .then((value * weight).sum() / weight.sum())
        .otherwise(value.mean())
    )
    found = numbered.group_by([*_KEY, "metric", "unit"], maintain_order=True).agg(
        total=value.sum(), mean=mean, single=value.first(), rows=pl.len()
    )
    merged = pl.when(pl.col("unit").is_in(_SUMS)).then("total").otherwise("mean")
    return found.with_columns(value=pl.when(pl.col("rows") == 1).then("single").otherwise(merged))


def _describe_kernels(kernels: pl.DataFrame, metrics: pl.DataFrame) -> pl.DataFrame:
    """Table `profiled_kernels`: names, work-groups as grid, work-items as block, durations."""
    axes = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    described = [(kernel, *split_shape(kernel)) for kernel in kernels["kernel"].unique()]
    names = pl.DataFrame(
        [(kernel, name, *(shape.get(axis) for axis in axes)) for kernel, name, shape in described],
        schema={"kernel": pl.String, "name": pl.String, **dict.fromkeys(axes, pl.Int64)},
        orient="row",
    )
    times = metrics.filter(metric=_TIME).select("kernel_id", spent="value").unique("kernel_id")
    spent = pl.col("spent")
    return (
        kernels.join(names, on="kernel", maintain_order="left")
        .join(times, on="kernel_id", how="left", maintain_order="left")
        .select(
            pl.col("kernel_id").cast(pl.Int64),
            "name",
            *axes,
            kind=pl.lit("kernel"),
            occurrence=pl.int_range(pl.len(), dtype=pl.Int64).over("kernel"),
            device_id="Device",
            duration_ns=pl.when(spent.is_between(0, 2.0**62, closed="left")).then(
                spent.round(mode="half_to_even").cast(pl.Int64)
            ),
        )
    )


def _finish_metrics(metrics: pl.DataFrame) -> pl.DataFrame:
    """Table `kernel_metrics`, in base units."""
    unit, value = pl.col("unit"), pl.col("value")
    scaled = value * unit.replace_strict(
        {peer: scale for peer, (_, scale) in _BASE.items()}, default=1.0, return_dtype=pl.Float64
    )
    is_whole = (scaled == scaled.round()) & (scaled.abs() < 2.0**53)
    return metrics.select(
        pl.col("kernel_id").cast(pl.Int64),
        "metric",
        unit=unit.replace({peer: ours for peer, (ours, _) in _BASE.items()}),
        value=scaled,
        value_int=pl.when(is_whole).then(scaled).cast(pl.Int64, strict=False),
    )
