"""What each operator pays in joules for an operation and a byte, beside its arithmetic intensity.

Work is counted from the shapes of inputs (`operator_efficiency`), energy is the measured one,
shared out by what ran (`energy_of_kernels`: a model). An operator pays for its operations, for its
traffic, and for the time that it takes: `idle_j` is what the idle GPU would have drawn meanwhile,
which only a shorter time saves. At a low intensity the joules for each operation rise, as those for
the bytes are spread over fewer of them (Choi, Bedard, Fowler, Vuduc: A Roofline Model of Energy,
IPDPS 2013).
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.roofline.operator_roofs import list_operator_kernels, place_operators
from sightline.timeline.energy import Meter, list_meters
from sightline.timeline.energy_shares import share_energy

ANALYSIS = Analysis(
    "energy_roofline",
    "How many joules does each operator take per operation and per byte?",
    (
        RANK,
        number("device_id", "device", required=True),
        text("operator", "operator", required=True),
        text("dims", "the sizes that its work follows from"),
        text("dtype", "type of the inputs"),
        number("instances", "calls with these arguments whose kernels the meter covers"),
        duration("kernel_ns", "their kernels' durations, added up"),
        number("flop", "floating-point operations of one call, from the shapes", "FLOP"),
        size("moved_bytes", "least traffic of one call"),
        real("flop_per_byte", "operations per byte of that traffic", "FLOP/byte"),
        text("bound", "the lower roof of time: compute or memory"),
        real("energy_j", "joules of all calls", "J"),
        real("idle_j", "what the idle GPU would have drawn in that time; null if not known", "J"),
        real("pj_per_flop", "energy for each operation", "pJ/FLOP"),
        real("pj_per_byte", "energy for each byte of the least traffic", "pJ/byte"),
        real("tflops_per_w", "10¹² operations a joule", "TFLOP/s/W"),
    ),
    needs=("counters", "host_ops", "device_ops"),
    notes=(
        "Joules are shared out between the meter's marks: of kernels much shorter than those they "
        "are an average (sightline stats energy_of_kernels: mark).",
    ),
)
_KEY = ("rank", "device_id", "name", "dims", "dtype")


def run(run: Run) -> pl.DataFrame:
    """One row a device, operator and sizes, the most energy first."""
    meters = list_meters(run)
    calls = place_operators(run)
    if calls.is_empty():
        raise MissingDataError(
            "'energy_roofline' cannot be answered",
            why="no operator with a model of its work has recorded shapes",
            hint="torch.profiler.profile(record_shapes=True)",
        )
    paid = pl.concat([_share(meter, run) for meter in meters])
    picojoule = 1e12 * pl.col("energy_j") / pl.col("instances")
    joined = calls.join(paid, left_on="host_op_id", right_on="owner", suffix="_paid")
    return (
        joined.group_by(_KEY, maintain_order=True)
        .agg(
            pl.col("flop", "moved_bytes", "bound").first(),
            pl.col("kernel_ns", "energy_j").sum(),
            instances=pl.len().cast(pl.Int64),
            idle_j=pl.when(pl.col("idle_j").is_not_null().all()).then(pl.col("idle_j").sum()),
        )
        .with_columns(
            flop_per_byte=pl.col("flop") / pl.col("moved_bytes"),
            pj_per_flop=picojoule / pl.when(pl.col("flop") > 0).then("flop"),
            pj_per_byte=picojoule / pl.when(pl.col("moved_bytes") > 0).then("moved_bytes"),
        )
        .with_columns(tflops_per_w=1 / pl.col("pj_per_flop"))
        .rename({"name": "operator"})
        .sort("energy_j", "operator", "dims", descending=[True, False, False], nulls_last=True)
        .select(c.name for c in ANALYSIS.columns)
    )


def _share(meter: Meter, run: Run) -> pl.DataFrame:
    """owner, energy_j and idle_j of the calls of a device's kernels that the meter covers.

    All operations share the energy; those without a model have no owner. A call of which a part
    lies outside of the meter's span is left out.
    """
    ops = (
        run.scan("device_ops")
        .filter(rank=meter.rank, device_id=meter.device_id)
        .select("device_op_id", "start_ns", "end_ns")
        .collect()
    )
    shares = share_energy(meter, ops)
    idle_w = shares.idle_j / (shares.idle_ns / 1e9) if shares.idle_ns > 0 else None
    owned = list_operator_kernels(run).select("device_op_id", "owner", "length").drop_nulls()
    known = owned.join(shares.ops, on="device_op_id", how="inner")
    cut = known.filter(pl.col("end_ns") - pl.col("start_ns") < pl.col("length"))
    return (
        known.join(cut, on="owner", how="anti")
        .group_by("owner")
        .agg(pl.col("energy_j").sum(), idle_j=pl.col("length").sum() / 1e9 * pl.lit(idle_w))
    )
