"""Which part of each device's timeline the answers are about."""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.columns import RANK, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.core.units import parse_range_ns
from sightline.errors import MissingDataError, RequestError
from sightline.timeline.segments import REPEATING, SEGMENTS, list_segments
from sightline.timeline.step_clock import list_steady_steps, list_steps

ANALYSIS = Analysis(
    "windows",
    "Which part of each device's timeline are the answers about?",
    (
        RANK,
        number("device_id", "device", required=True),
        time("window_start_ns", "start of the window"),
        time("window_end_ns", "end of the window"),
        text("window", "how it was chosen", required=True),
        time("host_start_ns", "start of what the host did for it: of the steps' host parts"),
        time("host_end_ns", "end of what the host did for it"),
    ),
    needs=("device_ops",),
    notes=(
        "Default: from the device's first operation's start to its last one's end.",
        "steady: from the end of the first step to the end of the last one, over whole periods "
        "where steps alternate; of a single step, that one.",
        "repeating: from the first to the last usual step, without start-up and tail, which happen "
        "once; the default where nothing repeats, or what happens once takes too little to matter. "
        "The report is about it; whole is all of it.",
        "start-up, tail: what happens once before the usual steps and after them (`segments`).",
        "step:N: the step whose name ends in N. Steps are marked or found (`iterations`), and last "
        "from the end of the work of the one before to the end of their own (`steps`). "
        "A..B: durations after the device's first operation, such as 10ms..25ms.",
    ),
)

_WHOLE = "first to last GPU operation"
_STEP_NUMBER = re.compile(r"(\d+)\s*$")


def run(run: Run) -> pl.DataFrame:
    """One window per rank and device that has operations."""
    whole = (
        run.columns("device_ops", ("rank", "device_id", "start_ns", "end_ns"))
        .group_by("rank", "device_id")
        .agg(window_start_ns=pl.col("start_ns").min(), window_end_ns=pl.col("end_ns").max())
        .sort("rank", "device_id")
    )
    chosen = run.window
    if chosen in SEGMENTS:
        return _of_segment(run, whole, chosen)
    if chosen in (None, "whole"):
        return _add_host(whole.with_columns(window=pl.lit(_WHOLE)))
    if chosen == "steady" or chosen.startswith("step:"):
        return _of_steps(run, whole, chosen)
    first, last = parse_range_ns(
        chosen, "Write steady, step:3, start-up, or a range such as 10ms..25ms."
    )
    begin = pl.col("window_start_ns") + first
    end = pl.col("window_end_ns") if last is None else pl.col("window_start_ns") + last
    part = whole.with_columns(window_start_ns=begin, window_end_ns=end, window=pl.lit(chosen))
    return _add_host(part.filter(pl.col("window_start_ns") < pl.col("window_end_ns")))


def _add_host(windows: pl.DataFrame) -> pl.DataFrame:
    """Windows of the device's time are the host's, too."""
    return windows.with_columns(host_start_ns="window_start_ns", host_end_ns="window_end_ns")


def _of_steps(run: Run, whole: pl.DataFrame, chosen: str) -> pl.DataFrame:
    steps = list_steady_steps(run) if chosen == "steady" else list_steps(run)
    if steps.is_empty():
        raise MissingDataError(
            f"there is no window '{chosen}'",
            why="the recording marks no steps, and its kernels do not repeat in any order",
            hint="Call prof.step() once per iteration, or choose a range such as 10ms..25ms.",
        )
    if chosen != "steady":
        wanted = chosen.removeprefix("step:").strip()
        numbers = steps.get_column("step").str.extract(_STEP_NUMBER.pattern)
        steps = steps.filter(numbers == wanted)
        if steps.is_empty():
            have = ", ".join(dict.fromkeys(numbers.drop_nulls().to_list()))
            raise RequestError(f"there is no step {wanted}", why=f"the recording has {have}")
    spans = steps.group_by("rank").agg(
        pl.col("host_start_ns").min(),
        pl.col("host_end_ns").max(),
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
    )
    return _cut(whole, spans, chosen)


def _of_segment(run: Run, whole: pl.DataFrame, chosen: str) -> pl.DataFrame:
    """What repeats, or what happens once before or behind it."""
    segments = list_segments(run)
    mine = segments.filter(pl.col("segment") == chosen)
    if mine.height:
        steps = mine.item(0, "steps")
        behind = "what comes after the start-up" if chosen == REPEATING else chosen
        return _cut(whole, mine, f"the {steps} steps that repeat" if steps else behind)
    if chosen == REPEATING:
        return _add_host(whole.with_columns(window=pl.lit(_WHOLE)))
    raise MissingDataError(
        f"there is no window '{chosen}'",
        why="nothing repeats in the recording, or what happens once takes too little of it",
    )


def _cut(whole: pl.DataFrame, spans: pl.DataFrame, name: str) -> pl.DataFrame:
    """One span a rank as its devices' windows."""
    return (
        whole.select("rank", "device_id")
        .join(
            spans.select(
                "rank",
                "host_start_ns",
                "host_end_ns",
                window_start_ns="start_ns",
                window_end_ns="end_ns",
            ),
            on="rank",
            maintain_order="left",
        )
        .with_columns(window=pl.lit(name))
        .filter(pl.col("window_start_ns") < pl.col("window_end_ns"))
    )
