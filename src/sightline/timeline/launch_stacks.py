"""Samples of the CPU's stacks that are closest to launching calls: which code launched."""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.run import Run

# A sample stands for the time between two of them. Where the recording does not say how long that
# is: that of 99 a second (sampling.events.HZ).
_PERIOD_NS = 10_101_010
# Libraries that every launch goes through: the one that called them is meant.
_VENDOR = re.compile(r"lib(?:cuda|cudart|cupti|nvidia|amdhip|hsa|ze_|sycl|c-|c\.|pthread)|\[vdso\]")


def match_calls(run: Run, calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, each with the closest sample of its thread: stack_id, place, match, apart_ns.

    `calls` has pid, tid, call_start and call_end, and may have more. stack_id is the sampled stack
    up to the innermost Python function, else up to the innermost function outside the vendor's
    libraries, and place the name of that; both are null where there is none. match is exact
    (sampled during the call), near (at most a period away) or unmatched.
    """
    calls = calls.sort("call_start", nulls_last=True)
    known = calls.filter(pl.col("call_start").is_not_null())
    samples, period = _list_samples(run), _find_period(run)
    after, before = (
        samples.rename({"time_ns": f"{way}_ns", "place_id": f"{way}_place"})
        for way in ("after", "before")
    )
    by = ["pid", "tid"]
    found = known.select("call_start", *by).join_asof(
        after, left_on="call_start", right_on="after_ns", by=by, strategy="forward",
        check_sortedness=False,
    ).join_asof(
        before, left_on="call_start", right_on="before_ns", by=by, strategy="backward",
        check_sortedness=False,
    )  # fmt: skip
    both = known.hstack(found.select("after_ns", "after_place", "before_ns", "before_place"))
    # Inside the call: no time apart.
    since_end = (pl.col("after_ns") - pl.col("call_end")).clip(0)
    to_start = pl.col("call_start") - pl.col("before_ns")
    is_after = (since_end <= to_start).fill_null(to_start.is_null())
    apart = pl.when(is_after).then(since_end).otherwise(to_start)
    is_near = (apart <= period).fill_null(value=False)
    matched = both.select(
        *calls.columns,
        stack_id=pl.when(is_near).then(
            pl.when(is_after).then("after_place").otherwise("before_place")
        ),
        apart_ns=pl.when(is_near).then(apart),
        match=pl.when(is_near & (apart == 0))
        .then(pl.lit("exact"))
        .when(is_near)
        .then(pl.lit("near"))
        .otherwise(pl.lit("unmatched")),
    )
    lost = calls.filter(pl.col("call_start").is_null()).with_columns(match=pl.lit("unmatched"))
    every = pl.concat([matched, lost], how="diagonal_relaxed")
    return every.join(_name_places(run), on="stack_id", how="left", maintain_order="left")


def _list_samples(run: Run) -> pl.DataFrame:
    """Samples with their stack's place. Threads say whose they are: their rank is their host's."""
    return (
        run.table("cpu_samples")
        .filter(pl.col("stack_id").is_not_null())
        .select("pid", "tid", "time_ns", "stack_id")
        .join(_find_places(run), on="stack_id", how="left")
        .select("pid", "tid", "time_ns", "place_id")
        .sort("time_ns")
    )


def _find_places(run: Run) -> pl.DataFrame:
    """The place of each stack, which is a stack as well: stack_id, place_id."""
    kinds = {
        frame: (layer, bool(_VENDOR.search((module or "").rsplit("/", 1)[-1])))
        for frame, layer, module in run.table("frames")
        .select("frame_id", "layer", "module")
        .iter_rows()
    }
    known: dict[int, tuple[int | None, int | None]] = {}  # innermost Python, innermost other
    rows = run.table("stacks").select("stack_id", "parent_id", "frame_id").sort("stack_id")
    for stack, parent, frame in rows.iter_rows():
        python, other = known.get(parent, (None, None))
        layer, is_vendors = kinds.get(frame, (None, False))
        if layer == "python":
            python = stack
        elif layer == "native" and not is_vendors:
            other = stack
        known[stack] = python, other
    places = [
        (stack, other if python is None else python) for stack, (python, other) in known.items()
    ]
    return pl.DataFrame(places, schema={"stack_id": pl.Int64, "place_id": pl.Int64}, orient="row")


def _name_places(run: Run) -> pl.DataFrame:
    """stack_id and place, the function of its innermost frame."""
    frames = run.table("frames").select("frame_id", place="function")
    return (
        run.table("stacks")
        .select("stack_id", "frame_id")
        .join(frames, on="frame_id", how="left")
        .select("stack_id", "place")
    )


def _find_period(run: Run) -> int:
    period = run.table("cpu_samples").get_column("weight_ns").max()
    return period if isinstance(period, int) else _PERIOD_NS
