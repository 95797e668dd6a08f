"""Whether the ranks' clocks agree, told by the ends of the collectives that they had together.

The collectives are the devices'; where those are too few, MPI's barriers and n x n collectives; and
where those are, the TCP packets between the hosts in traces of their kernels (`method`). Packets
give bounds: `uncertainty_ns` is then how far the clocks can be off at most, with a constant drift.

Clocks that are off by more than their uncertainty and the fabric's latency were moved when the
recordings were opened (`moved_ns`, `moved_ppm`); `offset_ns` and `drift_ppm` are what is left, as
the ends tell, relative to the lowest rank of the `component`. A difference between ranks that is
below `uncertainty_ns` says nothing.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, Column, duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.clocks import fit_run_clocks

ANALYSIS = Analysis(
    "clocks",
    "Do the ranks' clocks agree?",
    (
        RANK,
        number("component", "set of ranks whose clocks can be compared", required=True),
        duration("moved_ns", "added to the rank's own times when they were read"),
        Column("moved_ppm", pl.Float64, "its drift that was taken out, parts per million"),
        duration("offset_ns", "remaining offset, by the ends of collectives"),
        Column("drift_ppm", pl.Float64, "remaining drift, parts per million"),
        duration(
            "uncertainty_ns",
            "how far that may be wrong: 95th percentile of what remains; by packets, at most",
        ),
        text("method", "measured by: collectives or packets"),
        number("anchors", "collectives or packets of the rank that it was measured by"),
        text("state", "agree, moved, or contradictory: no clocks fit the matching"),
    ),
    notes=(
        "Empty where fewer than eight collectives of several ranks could be matched, and no "
        "packets of hosts both ways.",
        "Sends, receives and rooted collectives are left out: their ranks do not end together.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank."""
    fit = fit_run_clocks(run)
    if fit is None:
        return pl.DataFrame(schema={c.name: c.dtype for c in ANALYSIS.columns})
    moved = {part.rank: part.clock for part in run.parts if part.clock is not None}
    given = pl.DataFrame(
        [(rank, clock.shift_ns, clock.drift * 1e6) for rank, clock in moved.items()],
        schema={"rank": pl.Int64, "moved_ns": pl.Int64, "moved_ppm": pl.Float64},
        orient="row",
    )
    state = "contradictory" if fit.is_contradictory else "moved" if moved else "agree"
    return (
        fit.clocks.rename({"shift_ns": "offset_ns"})
        .join(given, on="rank", how="left")
        .with_columns(
            pl.col("moved_ns").fill_null(0),
            pl.col("moved_ppm").fill_null(0.0),
            drift_ppm=pl.col("drift") * 1e6,
            state=pl.lit(state),
            method=pl.lit(fit.method),
        )
        .select(c.name for c in ANALYSIS.columns)
        .sort("rank")
    )
