"""Call chains as a trie of frames, and the CPU samples that point into it."""

from __future__ import annotations

import polars as pl

from sightline.formats.nvidia._nsys import codes
from sightline.formats.nvidia._nsys.codes import decode_codes, name_process, name_thread
from sightline.formats.nvidia._nsys.database import Database

CHAINS = ("CUDA_CALLCHAINS", "OSRT_CALLCHAINS", "SAMPLING_CALLCHAINS")
# A home folder names its owner.
_HOME = r"(?i)(/home/|/users/|\\users\\)[^/\\]+"


def hide_identity(column: str, *, keep: bool) -> pl.Expr:
    """A path without the user's name in it, unless that was asked for."""
    path = pl.col(column).cast(pl.String)
    return path if keep else path.str.replace(_HOME, "${1}…")


def read(
    db: Database, *, keep_identity: bool
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, pl.DataFrame]]:
    """`frames`, `stacks`, and for each table of chains its chain ids with their `stack_id`."""
    rows = pl.concat([_chain_rows(db, table) for table in CHAINS])
    frames = (
        rows.select("layer", "symbol", "module")
        .unique(maintain_order=True)
        .with_row_index("frame_id")
        .with_columns(pl.col("frame_id").cast(pl.Int64))
    )
    rows = rows.join(frames, on=["layer", "symbol", "module"], nulls_equal=True)
    stacks, leaves = _trie(rows)
    described = db.named(frames, function="symbol", module_name="module").select(
        "frame_id", "layer", "function", module=hide_identity("module_name", keep=keep_identity)
    )
    found = {
        table: leaves.filter(pl.col("table") == n).select("id", "stack_id")
        for n, table in enumerate(CHAINS)
    }
    return described, stacks, found


def _chain_rows(db: Database, table: str) -> pl.DataFrame:
    """A chain's frames, one a row, `level` 0 at the root; the export counts from the leaf."""
    rows = db.ints(table, ("id", "symbol", "module", "kernelMode", "stackDepth"))
    rows = rows.drop_nulls(["id", "stackDepth"])
    return rows.select(
        pl.lit(CHAINS.index(table)).alias("table"),
        "id",
        "symbol",
        "module",
        pl.when(pl.col("kernelMode") == 1)
        .then(pl.lit("os"))
        .otherwise(pl.lit("native"))
        .alias("layer"),
        (pl.col("stackDepth").max().over("id") - pl.col("stackDepth")).alias("level"),
    )


def _trie(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Nodes of the trie, and the leaf node of each chain. Level by level from the root."""
    nodes = []
    leaves = [pl.DataFrame(schema={"table": pl.Int32, "id": pl.Int64, "stack_id": pl.Int64})]
    chain = ["table", "id"]
    at = (
        rows.select(*chain)
        .unique(maintain_order=True)
        .with_columns(stack_id=pl.lit(None, pl.Int64))
    )
    by_level = {key[0]: part for key, part in rows.partition_by("level", as_dict=True).items()}
    count = 0
    for level in sorted(by_level):
        here = by_level[level].select(*chain, "frame_id").unique(chain, keep="first")
        left = at.join(here, on=chain, how="left")
        leaves.append(left.filter(pl.col("frame_id").is_null()).select("table", "id", "stack_id"))
        left = left.drop_nulls("frame_id").rename({"stack_id": "parent_id"})
        level_nodes = (
            left.select("parent_id", "frame_id")
            .unique()
            .sort("parent_id", "frame_id", nulls_last=False)
            .with_columns(
                stack_id=pl.int_range(count, count + pl.len(), dtype=pl.Int64),
                depth=pl.lit(level, pl.Int64),
            )
        )
        count += level_nodes.height
        nodes.append(level_nodes)
        at = left.join(level_nodes, on=["parent_id", "frame_id"], nulls_equal=True).select(
            *chain, "stack_id"
        )
    leaves.append(at)
    stacks = (
        pl.concat(nodes)
        if nodes
        else pl.DataFrame(
            schema=dict.fromkeys(("stack_id", "parent_id", "frame_id", "depth"), pl.Int64)
        )
    )
    found = pl.concat([part.cast({"table": pl.Int32}) for part in leaves])
    return stacks.select("stack_id", "parent_id", "frame_id", "depth"), found.drop_nulls("stack_id")


def read_samples(db: Database, chains: pl.DataFrame) -> pl.DataFrame:
    """Sampled stacks."""
    rows = db.ints(
        "COMPOSITE_EVENTS", ("id", "start", "cpu", "threadState", "globalTid", "cpuCycles")
    )
    labels = {k: v.lower() for k, v in db.labels("ENUM_SAMPLING_THREAD_STATE").items()}
    labels = labels or codes.THREAD_STATES
    return (
        rows.join(chains, on="id", how="left", maintain_order="left")
        .select(
            time_ns="start",
            pid=name_process("globalTid"),
            tid=name_thread("globalTid"),
            stack_id="stack_id",
            # One is no count of cycles: the export then leaves it out.
            weight_cycles=codes.keep_known("cpuCycles", 0, 1),
            cpu="cpu",
            on_cpu=pl.when(pl.col("threadState") > 0).then(pl.col("threadState") == 1),
            state=decode_codes("threadState", labels),
        )
        .sort("time_ns", maintain_order=True)
    )


def read_switches(db: Database) -> pl.DataFrame:
    """Context switches."""
    rows = db.ints(
        "SCHED_EVENTS", ("start", "cpu", "isSchedIn", "globalTid", "threadState", "threadBlock")
    )
    return rows.select(
        time_ns="start",
        pid=name_process("globalTid"),
        tid=name_thread("globalTid"),
        cpu="cpu",
        switched_in=pl.col("isSchedIn") == 1,
        state=decode_codes("threadState", codes.THREAD_STATES),
        block_reason=decode_codes("threadBlock", codes.BLOCK_REASONS),
    ).sort("time_ns", maintain_order=True)
