"""The path of every host range, merged by name: a trie of frames over the nesting of ranges."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.lookup import find_rows, keep_rows, number_groups
from sightline.core.model.run import Run
from sightline.flames.call_stacks import list_stack_paths, name_frames
from sightline.flames.layers import BACKWARD, NEARBY, OF_HOST_LAYER, SIDE
from sightline.timeline.host_ranges import list_host_names
from sightline.timeline.launch_stacks import match_calls


@dataclass(frozen=True)
class HostPaths:
    """`frames`: frame_id, layer, name. `nodes`: node, path (list of frame ids, root first), match.

    `of`: host_op_id, node. A path starts with the run and the thread. match is the grade of its
    join: exact, or near where its CPU stack was sampled close to the call.
    """

    frames: pl.DataFrame
    nodes: pl.DataFrame
    of: pl.DataFrame

    def node(self, host_op_ids: pl.Series) -> pl.Series:
        """The node of each of these ranges, null where it has none."""
        rows = find_rows(self.of.get_column("host_op_id"), host_op_ids)
        return self.of.get_column("node").gather(rows)


_USED = (
    *("host_op_id", "parent_id", "forward_id", "rank", "recording_id", "pid", "tid"),
    *("layer", "start_ns", "end_ns", "stack_id", "domain"),
)


def make_host_paths(run: Run, wanted: pl.Series, *, sampled: bool = False) -> HostPaths:
    """Paths of these ranges. Backward work stands below the forward operator that it is for.

    With `sampled`, calls without a recorded stack have the sampled one of their thread that is
    closest, where one was sampled during the call or at most a period away.
    """
    host = run.table("host_ops", _USED)
    near = _sample_stacks(run, host, wanted) if sampled else None
    above = _above(host)
    needed = _needed(above, find_rows(host.get_column("host_op_id"), wanted))
    names = list_host_names(run)
    host = host.select(
        "host_op_id", "rank", "pid", "tid", "layer", "stack_id", "domain", name=names.places
    )
    host = keep_rows(host, needed)
    above = keep_rows(above.with_row_index("row"), needed)
    kind, kinds = number_groups(host, ["layer", "name", "domain"])
    name = names.different.gather(kinds.get_column("name"))
    # As Nsight Systems writes a range of a domain.
    kinds = kinds.with_columns(name=name).with_columns(
        name=pl.when(pl.col("domain").is_not_null())
        .then(pl.format("{}:{}", "domain", "name"))
        .otherwise("name")
    )
    thread, threads = number_groups(host, ["rank", "pid", "tid"])
    kinds = kinds.with_columns(
        # PyTorch records modules among the Python functions.
        frame_layer=pl.when(pl.col("name").str.starts_with("nn.Module: "))
        .then(pl.lit("op"))
        .otherwise(pl.col("layer").replace_strict(OF_HOST_LAYER, default="native")),
    )
    called = host.get_column("stack_id").null_count() < host.height or near is not None
    frames, roots = _frames(run, kinds, threads, called=called)
    ids = frames.rename({"layer": "frame_layer", "frame_id": "frame"})
    frame = kinds.join(ids, on=["frame_layer", "name"], maintain_order="left").get_column("frame")
    nodes, placed = _nodes(
        above.select(
            "row",
            "above",
            "is_backward",
            frame=frame.gather(kind),
            root=pl.when("is_root").then(roots.get_column("root").gather(thread)),
        ),
        needed.len(),
        roots.select("root", path=pl.concat_list("a", "b")).unique("root"),
        frames,
    )
    of = host.select("host_op_id", node=placed.gather(above.get_column("row"))).drop_nulls()
    nodes = nodes.with_columns(match=pl.lit("exact"))
    if called:
        calls = host.filter(pl.col("stack_id").is_not_null()).select("host_op_id", "stack_id")
        calls = calls.with_columns(match=pl.lit("recorded"))
        if near is not None:
            nodes = _find_heads(nodes, frames)
            of_python = nodes.filter("has_python").get_column("node")
            near = near.join(of.filter(~pl.col("node").is_in(of_python.implode())), on="host_op_id")
            calls = pl.concat([calls, near.select(calls.columns)])
        nodes, of = _with_call_stacks(run, nodes, of, calls, frames)
    return HostPaths(frames, nodes, of)


def _sample_stacks(run: Run, host: pl.DataFrame, wanted: pl.Series) -> pl.DataFrame | None:
    """Sampled stacks of the wanted calls that have none: host_op_id, stack_id, match; or None."""
    if not run.rows("cpu_samples") or not run.rows("stacks"):
        return None
    calls = host[find_rows(host.get_column("host_op_id"), wanted).drop_nulls().unique()]
    matched = match_calls(
        run,
        calls.filter(pl.col("stack_id").is_null()).select(
            "host_op_id", "pid", "tid", call_start="start_ns", call_end="end_ns"
        ),
    )
    found = matched.filter(pl.col("place").is_not_null())
    return found.select("host_op_id", "stack_id", "match") if found.height else None


def _find_heads(nodes: pl.DataFrame, frames: pl.DataFrame) -> pl.DataFrame:
    """With `head`, the frames at the start of a path that are its run, thread and annotations.

    Also `has_python`: Python's frames are in the path already.
    """
    kinds = frames.select(
        path="frame_id",
        is_head=(pl.col("layer") == "phase")
        | pl.col("layer").replace_strict(SIDE, return_dtype=pl.String).eq("root"),
        is_python=pl.col("layer") == "python",
    )
    counted = (
        nodes.select("node", "path")
        .explode("path")
        .join(kinds, on="path", how="left", maintain_order="left")
        .group_by("node")
        .agg(
            head=pl.col("is_head").cast(pl.Int64).cum_min().sum(),
            has_python=pl.col("is_python").any(),
        )
    )
    return nodes.join(counted, on="node", how="left", maintain_order="left")


def _above(host: pl.DataFrame) -> pl.DataFrame:
    """Of each range, as places in the table: `parent`, `forward`, and `above` in the picture.

    Only the outermost backward operator of a chain goes below its forward operator: the ones
    inside it belong to the same. What is `above` may be missing, which makes no root.
    """
    ids = host.get_column("host_op_id")
    parent, forward = (find_rows(ids, host.get_column(c)) for c in ("parent_id", "forward_id"))
    is_backward = host.get_column("forward_id").is_not_null()
    if is_backward.any():
        is_backward &= ~is_backward.gather(parent).fill_null(value=False)
    return pl.select(
        parent=parent,
        forward=pl.when(is_backward).then(forward),
        above=pl.when(is_backward).then(forward).otherwise(parent),
        is_backward=is_backward,
        is_root=~is_backward & host.get_column("parent_id").is_null(),
    )


def _needed(above: pl.DataFrame, wanted: pl.Series) -> pl.Series:
    """Which ranges are wanted, or around such, or the forward operators of these."""
    ways = [c for c in (above.get_column("parent"), above.get_column("forward")) if c.count()]
    found = pl.repeat(value=False, n=above.height, eager=True)
    level = wanted.drop_nulls().unique()
    while level.len():
        found = found.scatter(level, values=True)
        level = pl.concat([level.clear(), *(way.gather(level) for way in ways)])
        level = level.drop_nulls().unique()
        level = level.filter(~found.gather(level))
    return found


def _nodes(
    rows: pl.DataFrame, height: int, roots: pl.DataFrame, frames: pl.DataFrame
) -> tuple[pl.DataFrame, pl.Series]:
    """(node, path), and the node of each of the table's `height` rows: level by level.

    `rows` has row, above, frame, is_backward, and the `root` of outermost ranges; `roots` their
    paths. A node is a frame below a node, so lists are made once for each distinct path, not for
    each range: a training loop has a thousand times as many ranges as paths.
    """
    backward = frames.filter(name=BACKWARD).item(0, "frame_id")
    node = pl.repeat(None, height, dtype=pl.UInt32, eager=True)
    above = roots.select("path", node=pl.col("root").cast(pl.UInt32))
    paths = [above.clear()]
    used = above.height
    level = rows.filter(pl.col("root").is_not_null()).with_columns(up="root")
    todo = rows.filter(pl.col("root").is_null() & pl.col("above").is_not_null())
    while level.height:
        # One number for a frame below a node: looked up much faster than three.
        key = level.select(
            (pl.col("up").cast(pl.Int64) * 2 + pl.col("is_backward")) * frames.height
            + pl.col("frame")
        ).to_series()
        keys = key.unique().sort()
        node = node.scatter(level.get_column("row"), keys.search_sorted(key) + used)
        up, frame = pl.col("key") // frames.height, pl.col("key") % frames.height
        above = (
            keys.alias("key")
            .to_frame()
            .select(
                up=(up // 2).cast(pl.UInt32),
                is_backward=up % 2 == 1,
                frame=frame.cast(pl.UInt32),
                node=pl.int_range(used, used + pl.len(), dtype=pl.UInt32),
            )
            .join(above.rename({"node": "up"}), on="up", maintain_order="left")
            .select(
                path=pl.when("is_backward")
                .then(pl.concat_list("path", pl.lit(backward, pl.UInt32), "frame"))
                .otherwise(pl.concat_list("path", "frame")),
                node="node",
            )
        )
        paths.append(above)
        used += keys.len()
        todo = todo.with_columns(up=node.gather(todo.get_column("above")))
        level = todo.filter(pl.col("up").is_not_null())
        todo = todo.filter(pl.col("up").is_null())
    return pl.concat(paths).select("node", "path"), node


def _with_call_stacks(
    run: Run, nodes: pl.DataFrame, of: pl.DataFrame, calls: pl.DataFrame, frames: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same with the frames of call stacks in the paths of the calls that have one.

    `calls` has host_op_id, stack_id and match. A recorded stack stands right before its call. A
    sampled one stands before the operators, which Python called, and below the annotations; a
    frame says where it is only near.
    """
    ids = name_frames(run.table("frames")).join(
        frames.select("layer", "name", id="frame_id"), on=["layer", "name"]
    )
    stacks = list_stack_paths(run.table("stacks"), ids.select("frame_id", "id"))
    of = of.join(calls.rename({"match": "how"}), on="host_op_id", how="left", maintain_order="left")
    before_call = pl.col("path").list.len().cast(pl.Int64) - 1
    is_recorded = pl.col("how") == "recorded"
    place = pl.when(is_recorded).then(before_call).otherwise(pl.col("head"))
    if "head" not in nodes.columns:
        nodes = nodes.with_columns(head=pl.lit(0, pl.Int64))
    noted = frames.filter(layer="note", name=NEARBY).get_column("frame_id")
    note = pl.lit(noted.item() if noted.len() else None, pl.UInt32)
    nothing = pl.lit([], dtype=pl.List(pl.UInt32))
    pairs = (
        of.select("node", "stack_id", "how")
        .unique(maintain_order=True)
        .join(nodes, on="node", maintain_order="left")
        .join(stacks.rename({"path": "stack"}), on="stack_id", how="left", maintain_order="left")
        .with_columns(place=place)
        .with_columns(
            path=pl.when(pl.col("stack").is_null())
            .then("path")
            .otherwise(
                pl.concat_list(
                    pl.col("path").list.head("place"),
                    pl.when(pl.col("how") == "near").then(pl.concat_list(note)).otherwise(nothing),
                    "stack",
                    pl.col("path").list.slice("place"),
                )
            ),
            match=pl.when(pl.col("how") == "near").then("how").otherwise("match"),
        )
    )
    final = pairs.select("path", "match").unique(maintain_order=True).with_row_index("new")
    pairs = pairs.join(final, on=["path", "match"]).select("node", "stack_id", "how", "new")
    placed = of.join(pairs, on=["node", "stack_id", "how"], nulls_equal=True)
    return final.rename({"new": "node"}), placed.select("host_op_id", node="new")


def _frames(
    run: Run, kinds: pl.DataFrame, threads: pl.DataFrame, *, called: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All frames of these kinds of range with the run's and the threads'; each thread's root.

    `kinds` has frame_layer and name. The second answer has a row for each of the threads, in their
    order: `a` and `b`, the frames of its path, and `root`, the number of that path.
    """
    threads = threads.join(
        run.table("threads")
        .select("rank", "pid", "tid", "thread_name")
        .unique(["rank", "pid", "tid"], keep="first", maintain_order=True),
        on=["rank", "pid", "tid"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(
        run_name=pl.format("rank {}", "rank"),
        thread=pl.coalesce(
            pl.when(pl.col("thread_name").str.starts_with("thread ")).then("thread_name"),
            pl.format("thread {} {}", "tid", "thread_name"),
            pl.format("thread {}", "tid"),
            pl.lit("thread of unknown number"),
        ),
    )
    notes = [BACKWARD, NEARBY] if called else [BACKWARD]
    note = pl.DataFrame({"layer": ["note"] * len(notes), "name": notes})
    frames = (
        pl.concat(
            [
                threads.select(layer=pl.lit("run"), name="run_name"),
                threads.select(layer=pl.lit("thread"), name="thread"),
                kinds.select(layer="frame_layer", name="name"),
                note,
                *([name_frames(run.table("frames")).select("layer", "name")] if called else []),
            ]
        )
        .unique()
        .sort("layer", "name")
        .with_row_index("frame_id")
        .with_columns(pl.col("frame_id").cast(pl.UInt32))
    )
    of_run = frames.filter(layer="run").select(run_name="name", a="frame_id")
    of_thread = frames.filter(layer="thread").select(thread="name", b="frame_id")
    roots = (
        threads.join(of_run, on="run_name", maintain_order="left")
        .join(of_thread, on="thread", maintain_order="left")
        .select("a", "b")
    )
    root, _ = number_groups(roots, ["a", "b"])
    return frames, roots.with_columns(root=root)
