"""How near each operator comes to what the GPU can do, from the shapes of its inputs."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, pct, real, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.operator_roofs import ARGUMENTS, place_operators

ANALYSIS = Analysis(
    "operator_efficiency",
    "How close does each operator come to what the GPU can do?",
    (
        RANK,
        number("device_id", "device"),
        text("operator", "operator", required=True),
        text(
            "kind",
            "gemm, convolution, attention, normalization, softmax, reduction, elementwise or "
            "movement",
            required=True,
        ),
        text("dims", "the sizes that its work follows from"),
        text("dtype", "type of the inputs"),
        number("instances", "calls with these arguments"),
        duration("kernel_ns", "their kernels' durations, added up"),
        number("flop", "floating-point operations of one call, from the shapes", "FLOP"),
        size("moved_bytes", "least traffic of one call: inputs read once, results written once"),
        real("flop_per_byte", "operations per byte of that traffic", "FLOP/byte"),
        real("flop_per_s", "operations over time", "FLOP/s"),
        real("bytes_per_s", "least traffic over time", "bytes/s"),
        text("pipe", "precision and unit whose peak counts, such as bf16_tensor"),
        real("peak_flop_per_s", "its peak in the datasheet, dense", "FLOP/s"),
        real("peak_bytes_per_s", "bandwidth of device memory in the datasheet", "bytes/s"),
        text("bound", "the lower roof: compute or memory"),
        duration("roof_ns", "time of all calls at that roof"),
        pct("of_roof_pct", "roof_ns, % of kernel_ns: over 100 where a cache or Winograd helps"),
        duration("gap_ns", "what the calls take beyond their roof"),
        text("shapes", "shapes of the inputs, as JSON"),
    ),
    needs=("host_ops", "device_ops"),
    notes=(
        "One row per operator and arguments, sorted by the time beyond the roof.",
        "Work is counted from recorded shapes, not measured: see docs/roofline.md. Operators "
        "without a model (mixtures of experts, paged attention), and calls in CUDA graphs, are not "
        "in it: `gap_to_peak` has their time.",
        "NVTX ranges of torch's emit_nvtx(record_shapes=True) count by their shapes; the type is "
        "what their kernels' names hold.",
        "Peaks are the datasheet's, at its clock; a benchmark reaches 60 to 95 % of them.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per device, operator and arguments, the largest gap first."""
    calls = place_operators(run)
    key = ("rank", "device_id", "name", *ARGUMENTS, "pipe")
    first = ("kind", "dims", "dtype", "flop", "moved_bytes", "bound")
    peaks = ("peak_flop_per_s", "peak_bytes_per_s")
    over = pl.max_horizontal(pl.lit(0), pl.col("kernel_ns") - pl.col("roof_ns"))
    rows = calls.group_by(key, maintain_order=True).agg(
        pl.col(*first, *peaks).first(),
        instances=pl.len(),
        kernel_ns=pl.col("kernel_ns").sum(),
        roof_ns=pl.col("roof_ns").sum(),
        gap_ns=over.sum(),
        known=pl.col("roof_ns").is_not_null().all(),
    )
    seconds = pl.col("kernel_ns") / (1e9 * pl.col("instances"))
    known = pl.when("known")
    return (
        rows.with_columns(
            operator=pl.col("name"),
            shapes=pl.col("input_shapes"),
            flop_per_byte=pl.col("flop") / pl.col("moved_bytes"),
            flop_per_s=pl.col("flop") / seconds,
            bytes_per_s=pl.col("moved_bytes") / seconds,
            of_roof_pct=known.then(100 * pl.col("roof_ns") / pl.col("kernel_ns")),
            roof_ns=known.then(pl.col("roof_ns").round().cast(pl.Int64)),
            gap_ns=known.then(pl.col("gap_ns").round().cast(pl.Int64)),
        )
        .with_columns(pl.col(pl.Float64).fill_nan(None))
        .sort(
            "gap_ns",
            "kernel_ns",
            "operator",
            "shapes",
            descending=[True, True, False, False],
            nulls_last=True,
            maintain_order=True,  # operators of other types may be equal in all of these
        )
        .select(column.name for column in ANALYSIS.columns)
    )
