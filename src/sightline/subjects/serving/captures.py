"""Kernels that a graph replays, with the operators that launched them while it was captured.

A replayed kernel has no operator: the host launched the graph as a whole. Its capture recorded each
launch once, in the operators, modules and lines that made it. Of one stream a graph's nodes run in
the order in which they were captured, so that a replay of as many operations as the capture has
launches is tied to it one by one. Whether that holds is checked: a product's operator must run a
product. Of several streams they start in another order than that of the capture; where the
recording numbers the nodes (`graph node id`, counted up in each graph as its nodes are made), that
is their order. Where it says of each node when it was made, nothing is left to order
(`graph_nodes.py`). vLLM records captures with `capture_torch_profiler`, SGLang with
--enable-profile-cuda-graph. Without a capture a kernel has its layer and its part of it, by the
pattern that comes back.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import Texts
from sightline.core.model.columns import (
    RANK,
    conform_columns,
    join,
    make_empty,
    number,
    pct,
    text,
    time,
)
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.serving.graph_nodes import list_origins
from sightline.subjects.serving.kernel_parts import name_parts
from sightline.subjects.serving.layers import number_layers
from sightline.timeline.api_calls import begins_capture, ends_capture
from sightline.timeline.callers import find_callers, find_operators, find_places
from sightline.timeline.engine_steps import list_step_work
from sightline.timeline.host_ranges import find_host_ancestor
from sightline.timeline.kernel_kinds import COLLECTIVE, PRODUCT, name_kinds

# What becomes a node of a graph: launches, copies and memsets (CUDA Runtime API, Graph Management).
_NODES = r"Launch\w*Kernel|LaunchCooperative|^(?:cuda|hip)Mem(?:cpy|set)|^cu(?:Memcpy|Memset)"
_NO_NODE = r"GetAttribute|Prefetch"
# So many of the nodes that can be judged must agree, %, for a tie to be sure (ours: in TraceLens'
# recordings 100 %, and 8 to 44 % where the tie is off by one to five kernels).
SURE_PCT = 90.0
# What an operator asks for, as kernel_kinds.tsv calls it: native_functions.yaml, and the custom
# operators of vLLM, SGLang and AITER.
_ASKED = (
    (PRODUCT, r"::_?(?:addmm|mm|bmm|baddbmm|linear|matmul|_scaled_mm)$|gemm"),
    ("attention", r"(?i)attention"),
    ("normalization", r"(?i)norm"),
    (COLLECTIVE, r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"),
)
COLUMNS = (
    RANK,
    number("step", "step of the engine", required=True),
    join("device_op_id", "device_ops.device_op_id", "the operation"),
    text("kernel", "kernel, copy or memset"),
    time("start_ns", "start"),
    time("end_ns", "end"),
    number("layer", "layer of the model, from 0"),
    text("part", "what it does in its layer, by its name and its place"),
    text("operator", "operator that launched it while the graph was captured"),
    text("module", "innermost nn.Module around it"),
    text("line", "innermost line outside of the framework"),
    text("capture", "the capture, as the engine calls it"),
    pct("match_pct", "nodes whose operator and kernel compute the same, of those that say both"),
    text("confidence", "high or low"),
)

_NAMES = [column.name for column in COLUMNS]


def list_captured(run: Run) -> pl.DataFrame:
    """The nodes of each graph that a recording captured, in order.

    Columns capture (text of its annotation, or its number), node, operator, module and line. Raises
    MissingDataError where no graph was captured.
    """
    host = run.table(
        "host_ops", ["host_op_id", "rank", "pid", "tid", "layer", "name", "start_ns", "end_ns"]
    )
    names = Texts(host.get_column("name"))
    begins = host.filter(begins_capture(names)).select("rank", "pid", "tid", at="end_ns")
    ends = host.filter(ends_capture(names)).select("rank", "pid", "tid", until="start_ns")
    if begins.is_empty() or ends.is_empty():
        raise MissingDataError(
            "no graph was captured",
            why="the recording has no call that begins and ends a capture",
            hint='vLLM records captures with "capture_torch_profiler": true in --profiler-config',
        )
    thread = ["rank", "pid", "tid"]
    nodes = host.filter(names.match(_NODES) & ~names.match(_NO_NODE)).sort("start_ns")
    begins = begins.sort("at").with_row_index("number")
    nodes = nodes.join_asof(
        begins, left_on="start_ns", right_on="at", by=thread, check_sortedness=False
    )
    nodes = nodes.sort("start_ns").join_asof(
        ends.sort("until"), left_on="at", right_on="until", by=thread, strategy="forward",
        check_sortedness=False,
    )  # fmt: skip
    nodes = nodes.filter(pl.col("start_ns") < pl.col("until"))
    ids = nodes.get_column("host_op_id")
    operators = host.filter(pl.col("layer") == "op").get_column("host_op_id")
    nearest = find_host_ancestor(run, ids, operators)
    names_as_text = host.get_column("name").cast(pl.String)
    at = host.get_column("host_op_id").search_sorted(nearest)
    operator = names_as_text.gather(at.cast(pl.Int64).clip(0, max(host.height - 1, 0)))
    return nodes.select(
        capture=_name_captures(run, ids, pl.format("capture {}", pl.lit(nodes["number"]))),
        node=pl.int_range(pl.len(), dtype=pl.Int64).over("number"),
        operator=pl.when(pl.lit(nearest).is_not_null()).then(pl.lit(operator)),
        module=find_places(run, ids),
        line=find_callers(run, ids),
    )


def _name_captures(run: Run, ids: pl.Series, otherwise: pl.Expr) -> pl.Series:
    """What an engine wrote around each captured range (capture_32_FULL), else its number."""
    host = run.table("host_ops", ["host_op_id", "layer", "name"])
    marks = host.filter(
        (pl.col("layer") == "annotation")
        & pl.col("name").cast(pl.String).str.contains(r"^capture_\d+")
    )
    around = find_host_ancestor(run, ids, marks["host_op_id"])
    named = pl.DataFrame({"host_op_id": around}).join(
        marks.select("host_op_id", pl.col("name").cast(pl.String)),
        on="host_op_id", how="left", maintain_order="left",
    )  # fmt: skip
    return named.select(pl.coalesce("name", otherwise)).to_series()


def attribute_replays(run: Run, captured: pl.DataFrame | None) -> pl.DataFrame:
    """Each operation that a graph replays in a step, with what launched it (COLUMNS).

    Where the recording says when each node was made, that ties them. Else `captured` is
    list_captured of the recording of the captures: a replay is tied to the capture with as many
    nodes, and of several to the one that agrees best. Without either, operator, module and line are
    null. Layer and part are there without any. `match_pct` says in how many of the nodes that can
    be judged operator and kernel compute the same; confidence is high by the ids of nodes, and from
    SURE_PCT on, else low.
    """
    work = _place_in_layers(list_step_work(run)).filter("is_graph")
    nodes = run.table("device_ops", ["device_op_id", "graph_node_id"])
    work = work.join(nodes, on="device_op_id", how="left", maintain_order="left").join(
        list_origins(run), left_on=["rank", "pid", "graph_node_id"],
        right_on=["rank", "pid", "node"], how="left", maintain_order="left",
    )  # fmt: skip
    parted = {} if captured is None else captured.partition_by(
        "capture", as_dict=True, maintain_order=True
    )  # fmt: skip
    captures = {str(name): nodes for (name,), nodes in parted.items()}
    replay = ["rank", "step", "launch_id"]
    is_known = pl.col("host_op_id").is_not_null().any().over(replay)
    work = work.with_columns(is_known=is_known)
    parts = [
        _tie_replay(ops, captures)
        for ops in work.filter(~pl.col("is_known")).partition_by(replay, maintain_order=True)
    ]
    if work["is_known"].any():
        parts.append(_tie_nodes(run, work.filter("is_known")))
    if not parts:
        return make_empty(COLUMNS)
    found = conform_columns(pl.concat(part.select(_NAMES) for part in parts), COLUMNS)
    return found.sort("rank", "step", "start_ns", "device_op_id")


def _place_in_layers(work: pl.DataFrame) -> pl.DataFrame:
    """The operations with `layer` and `part`: of the kernels of whole steps, replayed or not."""
    kernels = work.filter(pl.col("kind") == "kernel").sort("rank", "step", "start_ns")
    places = []
    for ops in kernels.partition_by("rank", "step", maintain_order=True):
        known = number_layers(ops)
        places.append(known.select("device_op_id", "layer").with_columns(part=name_parts(known)))
    nowhere = {"device_op_id": pl.Int64, "layer": pl.Int64, "part": pl.String}
    placed = pl.concat(places) if places else pl.DataFrame(schema=nowhere)
    return work.join(
        placed.cast({"device_op_id": work.schema["device_op_id"]}),
        on="device_op_id", how="left", maintain_order="left",
    )  # fmt: skip


def _tie_nodes(run: Run, ops: pl.DataFrame) -> pl.DataFrame:
    """The operations of replays of which the recording says when their nodes were made."""
    ids = ops.get_column("host_op_id")
    capture = _name_captures(run, ids, pl.format("graph {}", pl.lit(ops["graph"])))
    operators = find_operators(run.table("host_ops"), ids)
    is_known = pl.lit(ids.is_not_null())
    tied = ops.with_columns(
        kernel=pl.col("name").cast(pl.String),
        operator=operators.get_column("operator").cast(pl.String),
        module=find_places(run, ids),
        line=find_callers(run, ids),
        capture=pl.when(is_known).then(pl.lit(capture)),
        confidence=pl.when(is_known).then(pl.lit("high")).otherwise(pl.lit("low")),
    )
    match = _measure_agreement(tied.get_column("kernel"), tied)
    return tied.with_columns(match_pct=pl.lit(match, pl.Float64))


def _tie_replay(ops: pl.DataFrame, captures: dict[str, pl.DataFrame]) -> pl.DataFrame:
    ops = ops.with_columns(kernel=pl.col("name").cast(pl.String))
    orders = [ops.sort("start_ns", "device_op_id")]
    numbers = ops.get_column("graph_node_id")
    if not numbers.has_nulls() and numbers.is_unique().all():
        orders.append(ops.sort("graph_node_id"))
    # Of those that agree alike the last: where nodes are numbered, by their numbers.
    tied = [
        (_measure_agreement(order.get_column("kernel"), nodes) or 0.0, number, name)
        for number, order in enumerate(orders)
        for name, nodes in captures.items()
        if nodes.height == ops.height
    ]
    if not tied:
        nothing = {n: pl.lit(None, pl.String) for n in ("operator", "module", "line", "capture")}
        return ops.with_columns(
            **nothing, match_pct=pl.lit(None, pl.Float64), confidence=pl.lit("low")
        )
    match, number, name = max(tied)
    nodes = captures[name].select("operator", "module", "line", "capture")
    return (
        orders[number]
        .hstack(nodes)
        .with_columns(
            match_pct=pl.lit(match),
            confidence=pl.lit("high" if match >= SURE_PCT else "low"),
        )
    )


def _measure_agreement(kernels: pl.Series, nodes: pl.DataFrame) -> float | None:
    """Of the nodes whose operator and kernel both say what they compute: how many say the same, %.

    Layers are alike, so that a tie that is off by some nodes would still be one to one: what each
    computes shows it. None where nothing can be judged.
    """
    named = pl.DataFrame({"kernel": kernels.unique()})
    named = named.with_columns(kind=name_kinds(named.get_column("kernel")))
    operator = pl.col("operator")
    asked = pl.coalesce(
        pl.when(operator.str.contains(pattern)).then(pl.lit(kind)) for kind, pattern in _ASKED
    )
    known = nodes.select(operator, asked=asked).with_columns(kernel=kernels)
    known = known.join(named, on="kernel", how="left", maintain_order="left")
    # Kernels that Triton or Inductor compiled may be called as their operator is.
    same = (operator == pl.col("kernel")) | (pl.col("asked") == pl.col("kind"))
    judged = known.filter(
        (pl.col("asked").is_not_null() & pl.col("kind").is_not_null())
        | (operator == pl.col("kernel"))
    )
    if judged.is_empty():
        return None
    return 100 * float(judged.select(same.sum()).item()) / judged.height
