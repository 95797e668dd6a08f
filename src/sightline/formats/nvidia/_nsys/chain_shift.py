"""Call chains that were recorded one call too late.

Exports of Nsight Systems 2022.2 give each CUDA call the chain of the call before it on its thread
(seen in a public recording: every cudaMemcpy has the chain of the cudaMalloc before it, every
cudaLaunchKernel that of a cudaMemcpy). A chain that names the API function it was taken in shows
this, and then each chain is moved back to its own call.
"""

from __future__ import annotations

import polars as pl

from sightline.formats.nvidia._nsys.database import Database

# Below, a few calls through a library of another name could look like a shift.
_ENOUGH = 5


def move_chains_back(calls: pl.DataFrame, db: Database) -> tuple[pl.DataFrame, bool]:
    """Calls with their own chains, and whether they had to be moved.

    `calls` has `_gtid`, `start_ns`, `name`, and `id` of the chain.
    """
    with_chain = calls.filter(pl.col("id").is_not_null())
    if with_chain.height < _ENOUGH or not db.has("CUDA_CALLCHAINS"):
        return calls, False
    ordered = with_chain.sort("_gtid", "start_ns").with_columns(
        own=pl.col("name").cast(pl.String).str.replace(r"_v\d+$", "")
    )
    ordered = ordered.with_columns(before=pl.col("own").shift(1).over("_gtid"))
    symbols = db.named(db.ints("CUDA_CALLCHAINS", ("id", "symbol")), symbol="symbol")
    symbols = symbols.with_columns(pl.col("symbol").cast(pl.String))
    api = symbols.filter(pl.col("symbol").is_in(ordered.get_column("own").unique().implode()))
    named = ordered.join(api.select("id").unique(), on="id", how="semi")
    if named.height < _ENOUGH:
        return calls, False
    own = named.join(api.select("id", own="symbol").unique(), on=["id", "own"], how="semi").height
    before = named.join(
        api.select("id", before="symbol").unique(), on=["id", "before"], how="semi"
    ).height
    # Runs of one function name both; a real shift shows where the name changes.
    if 10 * before < 9 * (named.height - 1) or before <= own:
        return calls, False
    back = ordered.select("_gtid", "start_ns", "name", moved=pl.col("id").shift(-1).over("_gtid"))
    mended = calls.join(
        back.unique(["_gtid", "start_ns", "name"]),
        on=["_gtid", "start_ns", "name"],
        how="left",
        maintain_order="left",
    )
    return mended.with_columns(id="moved").drop("moved"), True
