"""The process groups of a job, what kind of parallelism each serves, and what it costs.

The program's own description of a group decides (`named_by` "description"). Else its members and
what they exchange: all-to-all is expert parallelism; send and receive are a pipeline; ranks in a
row of one machine are tensor parallelism, ranks at equal distances data parallelism, all ranks the
world. Megatron-LM numbers its ranks so (core/parallel_state.py: tensor innermost, then data, then
pipeline), and DeepSpeed and TorchTitan follow it. Context parallelism cannot be told from data
parallelism by that, and a group that is both is named as the first.
"""

from __future__ import annotations

import itertools

import polars as pl

from sightline.core.model.columns import duration, number, size, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.links import MACHINE_RANKS
from sightline.timeline.collectives import list_members, name_kind

ANALYSIS = Analysis(
    "parallel_groups",
    "Which process groups are there, and what is each for?",
    (
        text("group", "process group"),
        text("parallelism", "world, tensor, data, pipeline, expert, context; null if unknown"),
        text("named_by", "description, or members and operations"),
        text("description", "what the program calls it"),
        number("group_size", "ranks in the group"),
        text("ranks", "its ranks, 0-7 or 0,8,16, where recorded"),
        text("kinds", "what they exchange"),
        number("operations", "operations of the rank with the most", required=True),
        size("bytes", "bytes of those"),
        duration("kernel_ns", "durations of all kernels, over all ranks"),
        duration("waited_ns", "of it waiting for the last rank, where matched"),
    ),
    needs=("device_ops", "collectives"),
)

# What programs call their groups: PyTorch's device meshes, Megatron-LM, DeepSpeed.
_CALLED = {
    "expert": r"\bep\b|mesh_ep|expert|moe",
    "tensor": r"\btp\b|mesh_tp|tensor|model_parallel",
    "pipeline": r"\bpp\b|mesh_pp|pipe",
    "context": r"\bcp\b|mesh_cp|context|sequence_parallel",
    "data": r"\bdp\b|mesh_dp|dp_shard|dp_replicate|fsdp|data_parallel",
    "world": r"default_pg|\bworld\b",
}


def run(run: Run) -> pl.DataFrame:
    """One row per group, that which takes most time first."""
    said = (
        run.table("collectives").unique("device_op_id").select("device_op_id", "group_description")
    )
    worlds = run.table("recordings").get_column("world_size").drop_nulls().to_list()
    members = list_members(run).join(said, on="device_op_id", how="left")
    key = ["group", "members"]
    busy = members.group_by(*key, "rank").agg(n=pl.len(), moved=pl.col("bytes").sum())
    most = busy.group_by(key).agg(operations=pl.col("n").max(), bytes=pl.col("moved").max())
    table = (
        members.group_by(key)
        .agg(
            description=pl.col("group_description").drop_nulls().first(),
            group_size=pl.col("group_size").max(),
            kinds=name_kind(pl.col("op")).drop_nulls().unique().sort().str.join(", "),
            kernel_ns=pl.col("ns").sum(),
            waited_ns=pl.col("wait_ns").sum(),
        )
        .join(most, on=key, nulls_equal=True)
        .sort("kernel_ns", *key, descending=[True, False, False], nulls_last=True)
    )
    ranks = [_read_ranks(text) for text in table.get_column("members")]
    called = pl.lit(None, pl.String)
    for name, pattern in reversed(_CALLED.items()):
        is_it = pl.col("description").str.contains(f"(?i){pattern}")
        called = pl.when(is_it).then(pl.lit(name)).otherwise(called)
    guessed = [
        _guess(of, row["group_size"], row["kinds"], max(worlds, default=None))
        for of, row in zip(ranks, table.iter_rows(named=True), strict=True)
    ]
    return (
        table.with_columns(
            called=called,
            guessed=pl.Series(guessed, dtype=pl.String),
            ranks=pl.Series(list(map(_write_ranks, ranks)), dtype=pl.String),
        )
        .with_columns(
            parallelism=pl.coalesce("called", "guessed"),
            named_by=pl.when(pl.col("called").is_not_null())
            .then(pl.lit("description"))
            .when(pl.col("guessed").is_not_null())
            .then(pl.lit("members and operations")),
        )
        .select(c.name for c in ANALYSIS.columns)
    )


def _guess(ranks: list[int], size: int | None, kinds: str, world: int | None) -> str | None:
    if "all_to_all" in kinds:
        return "expert"
    if kinds and not set(kinds.split(", ")) - {"send", "recv", "send_recv"}:
        return "pipeline"
    if size is not None and size == world:
        return "world"
    if len(ranks) < 2:
        return None
    steps = {b - a for a, b in itertools.pairwise(ranks)}
    if steps == {1} and ranks[0] // MACHINE_RANKS == ranks[-1] // MACHINE_RANKS:
        return "tensor"
    return "data" if len(steps) == 1 else None


def _read_ranks(text: str | None) -> list[int]:
    return sorted(map(int, text.split(","))) if text else []


def _write_ranks(ranks: list[int]) -> str | None:
    """Ranks in short: 0-7, 0,8,16 or 0-1,8-9; None for none."""
    if not ranks:
        return None
    runs = [[ranks[0], ranks[0]]]
    for rank in ranks[1:]:
        if rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
