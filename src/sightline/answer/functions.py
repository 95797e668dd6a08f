"""The functions that a recording of call stacks found running: what its first screen shows."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import label_kernels
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.flames.build import build_stacks, choose_weight
from sightline.flames.stacks import UNITS, Stacks
from sightline.timeline.host_functions import WAIT
from sightline.timeline.hot_stacks import read_hot_stacks

TOP = 10
# What a person calls a function; a thread, an instruction or a reason to wait stands under one.
_FUNCTIONS = ("python", "op", "native", "os", "kernel")
_REGIONS = ("phase",)  # what the program itself marked: all that some profilers know of


def list_hot_functions(run: Run) -> list[dict[str, Any]]:
    """The longest by their own share, of a run that holds nothing but stacks; else none."""
    if not (run.rows("stack_weights") or run.rows("cpu_samples") or run.rows("pc_samples")):
        return []
    try:
        stacks = build_stacks(run)
        weight = choose_weight(stacks, None)
    except MissingDataError:
        return []
    with_waits = weight == "cpu_time_ns" and _has_waits(run)
    return [row | {"with_waits": with_waits} for row in rank_functions(stacks, weight)]


def _has_waits(run: Run) -> bool:
    """Whether threads were sampled while they waited, too: their time is not the CPU's."""
    hot = read_hot_stacks(run)
    if hot is None:
        return False
    return bool(100 * sum_column(hot.list_kind(WAIT), "value") >= _WAITS_PCT * hot.total > 0)


_WAITS_PCT = 1.0
# How py-spy names the root of each process's stacks: what ends there ran before Python did.
_PY_SPY_PROCESS = re.compile(r"process \d+:.* \(:0\)")


def _show_frame(name: str, kernels: dict[str, str]) -> str:
    if _PY_SPY_PROCESS.fullmatch(name):
        return "(in no Python function)"
    return kernels.get(name, name)


def rank_functions(stacks: Stacks, weight: str) -> list[dict[str, Any]]:
    """Functions by what ends in them, with what stands below them too; else marked regions."""
    return _rank(stacks, weight, _FUNCTIONS) or _rank(stacks, weight, _REGIONS)


def _rank(stacks: Stacks, weight: str, layers: tuple[str, ...]) -> list[dict[str, Any]]:
    frames = stacks.frames.filter(pl.col("layer").is_in(layers))
    long = (
        stacks.rows.lazy()
        .filter(pl.col(weight) > 0)
        .select("frames", value=weight)
        .with_row_index("stack")
        .explode("frames", empty_as_null=False, keep_nulls=False)
        .join(frames.lazy(), left_on="frames", right_on="frame_id", maintain_order="left")
    )
    last = long.group_by("stack", maintain_order=True).agg(pl.col("name", "layer", "value").last())
    own = last.group_by("name", "layer").agg(own=pl.col("value").sum())
    below = (
        long.unique(["stack", "name", "layer"])
        .group_by("name", "layer")
        .agg(total=pl.col("value").sum())
    )
    whole = stacks.total(weight)
    top = own.join(below, on=["name", "layer"]).sort("own", "name", descending=[True, False])
    rows = top.head(TOP).collect().to_dicts()
    kernels = label_kernels(row["name"] for row in rows if row["layer"] == "kernel")
    return [
        {
            **row,
            "short_name": _show_frame(row["name"], kernels),
            "own_pct": 100 * row["own"] / whole,
            "weight": weight,
            "unit": UNITS.get(weight, "samples"),
        }
        for row in rows
    ]
