"""Which code launched the GPU's work, by samples of the CPU's stacks."""

from __future__ import annotations

import re

import polars as pl

from sightline.model.columns import RANK, duration, number, text
from sightline.model.declare import Analysis
from sightline.model.run import Run

# A sample stands for the time between two of them. Where the recording does not say how long that
# is: that of 99 a second (sampling.events.HZ).
_PERIOD_NS = 10_101_010
# Libraries that every launch goes through: the one that called them is meant.
_VENDOR = re.compile(r"lib(?:cuda|cudart|cupti|nvidia|amdhip|hsa|ze_|sycl|c-|c\.|pthread)|\[vdso\]")

ANALYSIS = Analysis(
    "launch_stacks",
    "Which code launched the kernels that take the time, by samples of the CPU's stacks?",
    (
        RANK,
        text("name", "the kernel"),
        text("place", "the innermost Python function of the stack, else the innermost function "
                      "outside the vendor's libraries; null where no stack is near"),
        text("match", "exact: sampled during the launching call; near: the thread's closest one, "
                      "at most a period away; unmatched: there is none"),
        number("launches", "launches"),
        duration("device_ns", "their time on the device, added up"),
        duration("apart_ns", "between call and sample, the median"),
    ),
    needs=("device_ops", "host_ops", "cpu_samples"),
    notes=(
        "Of short calls few are sampled themselves: what the thread did just before or after is "
        "taken for where it launched, which is right on the whole and not for each launch.",
    ),
)  # fmt: skip


def run(run: Run) -> pl.DataFrame:
    """One row per rank, kernel, place and grade, the most device time first."""
    placed = _match(_list_launches(run), _list_samples(run), _find_period(run))
    by = ["rank", "name", "place", "match"]
    return (
        placed.group_by(by)
        .agg(
            launches=pl.len().cast(pl.Int64),
            device_ns=pl.col("duration_ns").sum(),
            apart_ns=pl.col("apart_ns").median().round().cast(pl.Int64),
        )
        .sort(by)
        .sort("device_ns", descending=True, maintain_order=True)
        .select(column.name for column in ANALYSIS.columns)
    )


def _list_launches(run: Run) -> pl.DataFrame:
    """Kernels with the call that launched each, in order of the call's start."""
    calls = run.table("host_ops").select(
        "host_op_id", "pid", "tid", call_start="start_ns", call_end="end_ns"
    )
    kernels = run.table("device_ops").filter(pl.col("kind") == "kernel")
    return (
        kernels.select(
            "rank", "name", "launch_id", duration_ns=pl.col("end_ns") - pl.col("start_ns")
        )
        .join(calls, left_on="launch_id", right_on="host_op_id", how="left")
        .sort("call_start", nulls_last=True)
    )


def _list_samples(run: Run) -> pl.DataFrame:
    """Samples with their stack's place. Threads say whose they are: their rank is their host's."""
    places = _name_places(run)
    return (
        run.table("cpu_samples")
        .filter(pl.col("stack_id").is_not_null())
        .select("pid", "tid", "time_ns", "stack_id")
        .join(places, on="stack_id", how="left")
        .select("pid", "tid", "time_ns", "place")
        .sort("time_ns")
    )


def _name_places(run: Run) -> pl.DataFrame:
    """The place of each stack: stack_id, place."""
    frames = {
        row[0]: row[1:]
        for row in run.table("frames").select("frame_id", "layer", "function", "module").iter_rows()
    }
    known: dict[int, tuple[str | None, str | None]] = {}  # innermost Python, innermost other
    rows = run.table("stacks").select("stack_id", "parent_id", "frame_id").sort("stack_id")
    for stack, parent, frame in rows.iter_rows():
        python, other = known.get(parent, (None, None))
        layer, function, module = frames.get(frame, (None, None, None))
        if layer == "python":
            python = function
        elif layer == "native" and not _VENDOR.search((module or "").rsplit("/", 1)[-1]):
            other = function
        known[stack] = python, other
    places = [(stack, python or other) for stack, (python, other) in known.items()]
    return pl.DataFrame(places, schema={"stack_id": pl.Int64, "place": pl.String}, orient="row")


def _find_period(run: Run) -> int:
    period = run.table("cpu_samples").get_column("weight_ns").max()
    return period if isinstance(period, int) else _PERIOD_NS


def _match(launches: pl.DataFrame, samples: pl.DataFrame, period: int) -> pl.DataFrame:
    """Each launch with the closest sample of its thread: place, match, apart_ns."""
    known = launches.filter(pl.col("call_start").is_not_null())
    after, before = (
        samples.rename({"time_ns": f"{way}_ns", "place": f"{way}_place"})
        for way in ("after", "before")
    )
    by = ["pid", "tid"]
    at = known.select("call_start", *by)
    found = at.join_asof(
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
    both = both.with_columns(
        place=pl.when(is_near).then(
            pl.when(is_after).then("after_place").otherwise("before_place")
        ),
        apart_ns=pl.when(is_near).then(apart),
        match=pl.when(is_near & (apart == 0))
        .then(pl.lit("exact"))
        .when(is_near)
        .then(pl.lit("near"))
        .otherwise(pl.lit("unmatched")),
    )
    lost = launches.filter(pl.col("call_start").is_null()).with_columns(
        place=pl.lit(None, pl.String), apart_ns=pl.lit(None, pl.Int64), match=pl.lit("unmatched")
    )
    return pl.concat([both, lost], how="diagonal_relaxed")
