"""What-if questions about a run: which nodes a person means, and the run replayed without them.

A selector is KIND:PATTERN. Kinds: kernel, comm, memcpy, memset, graph, op (all device operations),
call (API calls by name), cpu (the host's time between calls; the pattern is a host range's name,
or nothing for all). The pattern is a regular expression that must be found in the name; for memcpy
also in its direction (HtoD).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import RequestError
from sightline.replay.gains import Gain, replay_both
from sightline.replay.replay import (
    free_calls,
    is_op,
    remove_ops,
    scale_nodes,
    select_ops,
    shorten_thinking,
)
from sightline.timeline.classes import COMMUNICATION, list_class
from sightline.timeline.host_ranges import measure_in_ranges

KINDS = ("kernel", "comm", "memcpy", "memset", "graph", "op", "call", "cpu")
_FORMER = {"think": "cpu"}  # what a kind was called until 0.2
_THREAD = ["rank", "pid", "tid"]


@dataclass(frozen=True)
class Wish:
    """One thing that a person wants to be otherwise."""

    text: str
    kind: str
    pattern: str
    factor: float  # 0: gone


def parse_wish(text: str, *, scale: bool) -> Wish:
    """'kernel:flash.*=0.5' with a factor, or 'memcpy:HtoD' to remove."""
    selector, equals, number = text.rpartition("=") if scale else (text, "", "0")
    kind, colon, pattern = selector.partition(":")
    if scale and not equals:
        raise RequestError(f"'{text}' has no factor", hint="Write  kernel:flash.*=0.5")
    kind = _FORMER.get(kind, kind)
    if kind not in KINDS or not (colon or kind == "cpu"):
        raise RequestError(
            f"'{text}' starts with no kind of work",
            why=f"kinds are {', '.join(KINDS)}",
            hint="For example  kernel:gemm, or cpu:DataLoader for CPU time in a range. A finding,\n"
            "such as dataloader-starved, can only be removed, and only by itself.",
        )
    try:
        factor = float(number)
    except ValueError as error:
        raise RequestError(
            f"'{number}' is not a factor", hint="Write  kernel:flash.*=0.5"
        ) from error
    if not 0 <= factor <= 1e6:
        raise RequestError(f"the factor {number} is not between 0 and 1000000")
    try:
        re.compile(pattern)
        pl.Series(["x"]).str.contains(pattern)
    except (re.error, pl.exceptions.PolarsError) as error:
        raise RequestError(f"'{pattern}' is not a regular expression", why=str(error)) from error
    return Wish(text, kind, pattern, factor)


def select_nodes(run: Run, wish: Wish, nodes: pl.DataFrame) -> pl.Series:
    """Which nodes a wish is about; of `cpu`, the calls whose time before them it is about."""
    name = pl.col("name").cast(pl.String)
    named = name.str.contains(wish.pattern)
    if wish.kind in ("call", "cpu"):
        calls = pl.col("kind").is_in(["call", "finish"])
        if wish.kind == "call":
            return nodes.select(calls & named).to_series()
        return _measure_thinking(run, wish, nodes) > 0
    device = is_op(nodes)
    if wish.kind == "op":
        return device & nodes.select(named).to_series()
    if wish.kind == "comm":
        return device & nodes.select(named).to_series() & _communicates(run, nodes)
    if wish.kind == "memcpy":
        ways = run.table("device_ops").select(
            ref_id="device_op_id", way=pl.col("copy_kind").fill_null("")
        )
        way = nodes.select("ref_id").join(ways, on="ref_id", how="left", maintain_order="left")
        named = named | pl.lit(way.get_column("way")).str.contains(wish.pattern)
    mask = (pl.col("kind") == wish.kind) & named.fill_null(value=False)
    return device & nodes.select(mask).to_series()


def _communicates(run: Run, nodes: pl.DataFrame) -> pl.Series:
    """Which nodes are operations that the report counts as communication."""
    return select_ops(nodes, list_class(run, COMMUNICATION, ["device_op_id"]).to_series())


def _measure_thinking(run: Run, wish: Wish, nodes: pl.DataFrame) -> pl.Series:
    """How much of the time before each call a wish about the host's time is about, ns."""
    if not wish.pattern:
        lag = nodes.select(pl.when(pl.col("kind") == "call").then("prev_lag_ns")).to_series()
        return lag.fill_null(0)
    ranges = run.table("host_ops").filter(
        pl.col("name").str.contains(wish.pattern) & ~pl.col("layer").is_in(["runtime", "driver"])
    )
    return measure_in_ranges(nodes, ranges, _THREAD)


def apply_wishes(run: Run, wishes: list[Wish], nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes with all wishes fulfilled, in the order given."""
    for wish in wishes:
        mask = select_nodes(run, wish, nodes)
        if wish.kind == "cpu":
            spent = _measure_thinking(run, wish, nodes)
            nodes = shorten_thinking(nodes, (spent * (1 - wish.factor)).round().cast(pl.Int64))
        elif wish.kind == "call" and wish.factor == 0:
            nodes = free_calls(nodes, mask)
        elif wish.factor == 0:
            nodes = remove_ops(nodes, nodes.get_column("ref_id").filter(mask))
        else:
            nodes = scale_nodes(nodes, nodes.select(pl.when(mask).then(wish.factor)).to_series())
    return nodes


def replay_wishes(run: Run, wishes: list[Wish]) -> tuple[Gain, Gain]:
    """The window as recorded and with all wishes fulfilled: the least and the most it may gain.

    The two differ where an operation may have waited for another one, and the recording does not
    say so.
    """
    return replay_both(run, lambda nodes: apply_wishes(run, wishes, nodes))
