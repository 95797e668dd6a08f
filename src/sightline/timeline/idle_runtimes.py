"""Which compiler or other runtime the host was in during a gap, where no range of its own says so.

CPU samples say it where more than half of those in the gap are of one; else the kernel that ends
the gap does, if it is the first of its name and such compilers name theirs so.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.latest import find_latest
from sightline.core.model.run import Run
from sightline.timeline.host_ranges import PACE_NS
from sightline.timeline.launching import list_helpers
from sightline.timeline.runtimes import KERNEL, ONCE, find_runtimes, list_runtimes
from sightline.timeline.sampled_runtimes import list_sampled_runtimes

_THREAD = ["rank", "pid", "tid"]
# Fewer fall where they do by chance (ours).
LEAST_SAMPLES = 10


def infer_runtimes(run: Run, found: pl.DataFrame) -> pl.Series:
    """The row of `list_runtimes` for each gap, or null: of those that happen once.

    `found` has the launching thread, `start_ns`, `waited_ns`, `host_late_ns`, `after` and
    `is_first`. What no range explains must be longer than a pace.
    """
    long = pl.col("host_late_ns") > PACE_NS
    gaps = found.select(*_THREAD, "start_ns", "waited_ns", "after", first=long & pl.col("is_first"))
    if not found.select(long.any()).item():
        return pl.repeat(None, found.height, dtype=pl.Int32, eager=True)
    named = gaps.get_column("after").filter(gaps.get_column("first")).unique()
    by_name = pl.DataFrame({"after": named, "by_kernel": find_runtimes(named, KERNEL)})
    gaps = gaps.join(by_name, on="after", how="left", maintain_order="left").with_columns(
        by_sample=_find_by_samples(run, gaps)
    )
    by_kernel = pl.when("first").then("by_kernel")
    inferred = pl.when(found.select(long.alias("long")).to_series()).then(
        pl.coalesce("by_sample", by_kernel)
    )
    return gaps.select(inferred.alias("runtime")).to_series()


def _find_by_samples(run: Run, gaps: pl.DataFrame) -> pl.Series:
    """The runtime of more than half of the samples of the thread that launches most."""
    nothing = pl.repeat(None, gaps.height, dtype=pl.Int32, eager=True)
    samples = list_sampled_runtimes(run)
    if samples.is_empty():
        return nothing
    main = gaps.join(list_helpers(run), on=_THREAD, how="left", maintain_order="left").with_columns(
        tid=pl.coalesce("main_tid", "tid")
    )
    at = find_latest(samples, "time_ns", main, "start_ns", _THREAD)
    inside = (samples.get_column("time_ns") < main.get_column("waited_ns").gather(at)).fill_null(
        value=False
    )
    names = [r.runtime if r.kind in ONCE else None for r in list_runtimes()]
    known = samples.get_column("runtime").replace_strict(
        dict(enumerate(names)), default=None, return_dtype=pl.String
    )
    counted = (
        pl.DataFrame({"gap": at, "name": known, "row": samples.get_column("runtime")})
        .filter(inside)
        .with_columns(all=pl.len().over("gap"))
        .filter(pl.col("name").is_not_null(), pl.col("all") >= LEAST_SAMPLES)
        .group_by("gap", "name")
        .agg(n=pl.len(), row=pl.col("row").mode().min(), all=pl.col("all").first())
        .filter(2 * pl.col("n") > pl.col("all"))
    )
    return nothing.scatter(counted.get_column("gap"), counted.get_column("row"))
