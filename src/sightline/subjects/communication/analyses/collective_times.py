"""Each collective of several ranks: who came last, who waited, and how fast its bytes moved.

A collective is what the ranks' kernels are together (`grade` says by what they were matched). Its
transfer is the time of the kernel that was there shortest: the last rank's, which waited for
nobody, so that no clock is compared. Its skew compares clocks, and says nothing where it is below
`skew_uncertainty_ns` (`sightline stats clocks`).
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, flag, number, pct, rate, size, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.links import MACHINE, find_link, name_link
from sightline.timeline.clocks import fit_run_clocks
from sightline.timeline.collectives import list_collectives

ANALYSIS = Analysis(
    "collective_times",
    "What did each collective of several ranks take, and who was late to it?",
    (
        number("collective", "number of the collective in the run", required=True),
        text("kind", "all_reduce, all_gather, ...; null where its name says nothing"),
        text("op", "operation as recorded; without metadata, the kernel's name", required=True),
        text("group", "process group"),
        number("group_size", "ranks in the group"),
        number("sequence", "order of the operation in its group, where recorded"),
        text("grade", "matched by: sequence number, order in the group, or kernel name"),
        text("dtype", "element type"),
        size("bytes", "size of its whole array"),
        time("start_ns", "first rank's start"),
        time("last_start_ns", "last rank's start"),
        time("end_ns", "last rank's end"),
        duration("skew_ns", "last start less first start"),
        duration("skew_uncertainty_ns", "how far that may be wrong; null where not known"),
        flag("skew_is_known", "whether the skew is above its uncertainty"),
        number("last_rank", "the rank that came last", "rank"),
        duration("adds_ns", "how much earlier all could have begun without the last rank"),
        duration("waited_ns", "time that all ranks waited, summed"),
        duration("transfer_ns", "from the last rank's start on"),
        rate("algorithm_bandwidth_gb_per_s", "bytes / transfer"),
        rate("bus_bandwidth_gb_per_s", "algorithm bandwidth × the factor of nccl-tests"),
        text("link", "slowest link between the ranks: machine or network"),
        rate("link_peak_gb_per_s", "what the GPU's links carry each way, where it is known"),
        pct("achieved_pct", "bus bandwidth, % of that peak"),
    ),
    needs=("device_ops",),
    notes=(
        "Decimal GB/s; bandwidths as nccl-tests defines them (doc/PERFORMANCE.md).",
        "Ranks of one machine are taken to be numbered in a row, eight to a machine.",
        "What could not be matched is counted by  sightline stats collective_matching",
    ),
    worst="adds_ns",
)


def run(run: Run) -> pl.DataFrame:
    """One row per collective, in order of time."""
    fit = fit_run_clocks(run)
    uncertain = None if fit is None else fit.clocks.get_column("uncertainty_ns").max()
    peak = find_link(run)
    within = pl.col("link") == MACHINE
    return (
        list_collectives(run)
        .rename({"meeting": "collective"})
        .with_columns(
            skew_uncertainty_ns=pl.lit(uncertain, pl.Int64),
            link=name_link(pl.col("members"), pl.col("group_size")),
        )
        .with_columns(
            skew_is_known=pl.col("skew_ns") > pl.col("skew_uncertainty_ns"),
            link_peak_gb_per_s=pl.when(within).then(pl.lit(peak and peak / 1e9, pl.Float64)),
        )
        .with_columns(
            achieved_pct=100 * pl.col("bus_bandwidth_gb_per_s") / pl.col("link_peak_gb_per_s")
        )
        .select(c.name for c in ANALYSIS.columns)
    )
