"""Stacks from a timeline: device operations under what launched them, gaps under who was late."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.cover import measure_alone
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.run import Run
from sightline.flames.host_paths import HostPaths, make_host_paths
from sightline.flames.layers import NOT_RECORDED
from sightline.flames.stacks import Stacks, merge_stacks
from sightline.timeline.system_calls import keep_ranges_of_processes

_NO_PATH = pl.lit([], dtype=pl.List(pl.UInt32))


# What is asked of a host range.
_RANGE = (
    *("host_op_id", "parent_id", "rank", "recording_id", "pid", "tid"),
    *("depth", "subtree_end_id", "layer", "name", "start_ns", "end_ns"),
)


def stack_device_time(run: Run) -> Stacks:
    """Weights gpu_time_ns, exposed_ns and bytes of every device operation.

    gpu_time_ns is its duration; exposed_ns the part of it in which nothing else ran on the
    device; bytes what it copied or filled. Sums over a device equal those of its operations.
    """
    used = ("rank", "device_id", "stream_id", "start_ns", "end_ns", "launch_id", "bytes", "name")
    ops = run.table("device_ops", used).with_columns(pl.col("name").cast(pl.Categorical))
    ops = select_starting_in(ops, run.ask("windows"))
    length = pl.col("end_ns") - pl.col("start_ns")
    return stack_ops(
        run,
        ops.with_columns(gpu_time_ns=length, exposed_ns=measure_alone(ops, ["rank", "device_id"])),
        ["gpu_time_ns", "exposed_ns", "bytes"],
    )


def stack_ops(run: Run, ops: pl.DataFrame, weights: list[str]) -> Stacks:
    """Device operations below the host's ranges that launched them, with int64 weights.

    `ops` has rank, device_id, stream_id, launch_id, name, and the weights.
    """
    paths = make_host_paths(run, ops.get_column("launch_id"), sampled=True)
    # Added up by name before any list is made: few names, many operations.
    ops = (
        ops.with_columns(node=paths.node(ops.get_column("launch_id")))
        .group_by("rank", "device_id", "stream_id", "name", "node")
        .agg(pl.col(weights).sum())
        .with_columns(
            pl.col("name").cast(pl.String),
            device=pl.when(pl.col("stream_id").is_not_null())
            .then(pl.format("GPU {} stream {}", "device_id", "stream_id"))
            .otherwise(pl.format("GPU {}", "device_id")),
        )
    )
    ends = pl.concat(
        [
            ops.select(layer=pl.lit("device"), name="device"),
            ops.select(layer=pl.lit("kernel"), name="name"),
        ]
    )
    return _below_paths(
        paths,
        ops.select(
            "rank",
            "node",
            *weights,
            layers=pl.lit(["device", "kernel"]),
            names=pl.concat_list("device", "name"),
        ),
        ends,
    )


def stack_idle_time(run: Run) -> Stacks:
    """Weight gpu_idle_ns: each idle gap, cut up by what the launching thread was doing in it.

    A gap that ends with a late launch goes, moment by moment, to the innermost range that the
    launching thread was in; moments in which it was in none go to '[nothing recorded]' there.
    Other gaps go to the launch with a note that names the cause. The sum is the device's idle
    time exactly.
    """
    gaps = run.ask("idle_gaps").with_row_index("gap")
    host = keep_ranges_of_processes(run, run.table("host_ops", _RANGE))
    calls = host.select(launch_id="host_op_id", pid="pid", tid="tid", call_ns="start_ns")
    gaps = gaps.join(calls, on="launch_id", how="left", maintain_order="left")
    late = gaps.filter(pl.col("launch_late_ns").is_not_null()).with_columns(
        until_ns=pl.min_horizontal("call_ns", "end_ns")
    )
    pieces = _during(late, host)
    rest = pl.concat(
        [
            # From the call on, a late gap is the launch's own way to the device.
            late.select(
                "rank",
                "launch_id",
                note=pl.lit("[launch latency]"),
                ns=pl.col("end_ns") - pl.col("until_ns"),
            ),
            gaps.filter(pl.col("launch_late_ns").is_null()).select(
                "rank",
                "launch_id",
                note=pl.format("[{}]", pl.col("cause").str.replace_all("_", " ")),
                ns="duration_ns",
            ),
        ]
    ).filter(pl.col("ns") > 0)
    wanted = pl.concat([pieces.get_column("host_op_id"), rest.get_column("launch_id")])
    paths = make_host_paths(run, wanted)
    rows = pl.concat(
        [
            pieces.with_columns(
                note=pl.when(pl.col("host_op_id").is_null()).then(pl.lit("[nothing recorded]"))
            ),
            rest.rename({"launch_id": "host_op_id"}),
        ],
        how="diagonal",
    )
    rows = rows.with_columns(node=paths.node(rows.get_column("host_op_id")))
    noted, nothing = pl.col("note").is_not_null(), pl.lit([], dtype=pl.List(pl.String))
    return _below_paths(
        paths,
        rows.select(
            "rank",
            "node",
            layers=pl.when(noted).then(pl.lit(["note"])).otherwise(nothing),
            names=pl.when(noted).then(pl.concat_list("note")).otherwise(nothing),
            gpu_idle_ns="ns",
        ),
        rows.filter(noted).select(layer=pl.lit("note"), name="note"),
    )


def stack_cpu_time(run: Run) -> Stacks:
    """Weight cpu_time_ns: the wall time of every host range that no range below it takes."""
    host = run.table("host_ops", _RANGE)
    mine = keep_ranges_of_processes(run, host)
    # Of the same threads in a trace of the whole system: those nest by themselves.
    systems = host.join(mine.select("recording_id").unique(), on="recording_id", how="anti")
    segments = pl.concat([_innermost(mine), _innermost(systems)]).drop_nulls("host_op_id")
    rows = segments.group_by("rank", "host_op_id").agg(
        cpu_time_ns=(pl.col("end_ns") - pl.col("start_ns")).sum()
    )
    paths = make_host_paths(run, rows.get_column("host_op_id"))
    nothing = pl.lit([], dtype=pl.List(pl.String))
    return _below_paths(
        paths,
        rows.with_columns(node=paths.node(rows.get_column("host_op_id")))
        .drop_nulls("node")
        .select("rank", "node", layers=nothing, names=nothing, cpu_time_ns="cpu_time_ns"),
        pl.DataFrame(schema={"layer": pl.String, "name": pl.String}),
    )


_THREAD = ["rank", "pid", "tid"]


def _innermost(host: pl.DataFrame) -> pl.DataFrame:
    """Each thread's time cut at every start and end, with the innermost range open in each piece.

    At a start the new range is the innermost; at an end it is the one around, if still open.
    """
    starts = host.select(*_THREAD, t="start_ns", id="host_op_id", depth="depth", order=pl.lit(1))
    ends = host.select(
        *_THREAD, t="end_ns", id="parent_id", depth=pl.col("depth") - 1, order=pl.lit(0)
    )
    return (
        pl.concat([starts, ends])
        # Of ends at one moment the outermost speaks last; of starts the innermost does.
        .with_columns(
            rank_in_moment=pl.when(pl.col("order") == 0)
            .then(-pl.col("depth"))
            .otherwise(pl.col("depth"))
        )
        .sort(*_THREAD, "t", "order", "rank_in_moment", nulls_last=True)
        .unique([*_THREAD, "t"], keep="last", maintain_order=True)
        .select(*_THREAD, start_ns="t", end_ns=pl.col("t").shift(-1).over(_THREAD), host_op_id="id")
        .drop_nulls("end_ns")
    )


def _during(late: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """Pieces of each late gap, up to the launch call, with the innermost range of each."""
    segments = _innermost(host).sort("start_ns").with_row_index("segment")
    # A segment may begin before the gap: the one that is open at its start counts too.
    spans = late.select("gap", *_THREAD, "start_ns", "until_ns").filter(
        pl.col("until_ns") > pl.col("start_ns")
    )
    cut = (
        (
            spans.join(
                segments.select(*_THREAD, s="start_ns", e="end_ns", host_op_id="host_op_id"),
                on=_THREAD,
                nulls_equal=True,
            )
            if spans.height * segments.height < 10_000
            else _overlapping(spans, segments)
        )
        .with_columns(a=pl.max_horizontal("start_ns", "s"), b=pl.min_horizontal("until_ns", "e"))
        .filter(pl.col("a") < pl.col("b"))
    )
    inside = cut.select("gap", "rank", "host_op_id", ns=pl.col("b") - pl.col("a"))
    covered = inside.group_by("gap").agg(covered=pl.col("ns").sum())
    # Before the thread's first and after its last range nothing is recorded.
    outside = (
        spans.join(covered, on="gap", how="left")
        .select(
            "gap",
            "rank",
            host_op_id=pl.lit(None, pl.Int64),
            ns=pl.col("until_ns") - pl.col("start_ns") - pl.col("covered").fill_null(0),
        )
        .filter(pl.col("ns") > 0)
    )
    return pl.concat([inside, outside]).drop("gap")


def _overlapping(spans: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Pairs of spans and segments of one thread that overlap, found by position, not by pairing.

    Segments of a thread are disjoint and sorted, so those of a span are a run of rows.
    """
    own = segments.sort(*_THREAD, "start_ns", nulls_last=True).with_columns(
        place=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    firsts = (
        spans.sort("start_ns")
        .join_asof(
            own.select(*_THREAD, "start_ns", first="place").sort("start_ns"),
            on="start_ns",
            by=_THREAD,
            check_sortedness=False,
        )
        .sort("until_ns")
        .join_asof(
            own.select(*_THREAD, until_ns="start_ns", last="place").sort("until_ns"),
            on="until_ns",
            by=_THREAD,
            check_sortedness=False,
        )
        .drop_nulls("last")
    )
    lowest = own.group_by(_THREAD).agg(lowest=pl.col("place").min())
    runs = firsts.join(lowest, on=_THREAD, nulls_equal=True).with_columns(
        place=pl.int_ranges(pl.coalesce("first", "lowest"), pl.col("last") + 1)
    )
    return (
        runs.drop("first", "last", "lowest")
        .explode("place")
        .join(own.select("place", s="start_ns", e="end_ns", host_op_id="host_op_id"), on="place")
    )


def _below_paths(paths: HostPaths, rows: pl.DataFrame, ends: pl.DataFrame) -> Stacks:
    """Stacks of a host path followed by further frames; no path means an unmatched launch.

    `rows` has rank, node, layers and names (the further frames), and weights; `ends` lists the
    further frames as (layer, name).
    """
    root = rows.select(layer=pl.lit("run"), name=pl.format("rank {}", "rank")).unique()
    note = pl.DataFrame({"layer": ["note"], "name": [NOT_RECORDED]})
    known = paths.frames.height
    extra = (
        pl.concat([root, note, ends])
        .unique()
        .join(paths.frames, on=["layer", "name"], how="anti")
        .sort("layer", "name")
        .with_columns(frame_id=pl.int_range(known, known + pl.len(), dtype=pl.UInt32))
    )
    frames = pl.concat([paths.frames, extra.select(paths.frames.columns)])
    weights = [c for c in rows.columns if c not in ("rank", "node", "layers", "names")]
    rows = rows.group_by("rank", "node", "layers", "names").agg(pl.col(weights).sum())
    rows = rows.with_row_index("_row")
    ids = frames.rename({"layer": "layers", "name": "names", "frame_id": "id"})
    tail = (
        rows.select("_row", "layers", "names")
        .filter(pl.col("names").list.len() > 0)
        .explode("layers", "names")
        .join(ids, on=["layers", "names"], how="left", maintain_order="left")
        .group_by("_row", maintain_order=True)
        .agg(tail="id")
    )
    unmatched = pl.concat_list(
        pl.format("rank {}", "rank").replace_strict(
            dict(frames.filter(layer="run").select("name", "frame_id").rows()),
            return_dtype=pl.UInt32,
        ),
        pl.lit(frames.filter(layer="note", name=NOT_RECORDED).item(0, "frame_id"), pl.UInt32),
    )
    table = (
        rows.join(paths.nodes, on="node", how="left", maintain_order="left")
        .join(tail, on="_row", how="left", maintain_order="left")
        .select(
            *weights,
            frames=pl.concat_list(
                pl.when(pl.col("path").is_null()).then(unmatched).otherwise("path"),
                pl.col("tail").fill_null(_NO_PATH),
            ),
            match=pl.col("match").fill_null("unmatched"),
        )
    )
    return merge_stacks(Stacks(frames, table))
