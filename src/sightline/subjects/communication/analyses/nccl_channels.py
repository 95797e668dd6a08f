"""Over which transports the channels of NCCL's communicators run, and between how many ranks.

From NCCL's log. P2P is direct access of one GPU to another's memory; SHM goes through the host's
memory; NET through the network, with GDRDMA straight from the GPU's memory and without it by way of
the host's (NVIDIA/nccl, src/transport).
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "nccl_channels",
    "Over which transports does NCCL move data?",
    (
        text("group", "id of the communicator, where logged"),
        number("group_size", "ranks in it"),
        text("transport", "P2P, SHM, NET or another", required=True),
        text("via", "transport and way, without the device's number", required=True),
        text("end", "of a network channel: send or receive"),
        number("pairs", "pairs of ranks, sender and receiver", required=True),
        number("channels", "channels between them, summed over pairs", required=True),
    ),
    needs=("nccl_channels",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per communicator and way, most channels first."""
    # "NET/IB/3/GDRDMA", "NET/AWS Libfabric/2(5)/GDRDMA/Shared": the number says which card.
    way = pl.col("via").str.replace(r"/\d+(\(\d+\))?(/|$)", "$2")
    key = ["group", "group_size", "transport", "via", "end"]
    return (
        run.table("nccl_channels")
        .with_columns(via=way)
        .group_by(key)
        .agg(pairs=pl.struct("source_rank", "target_rank").n_unique(), channels=pl.len())
        .sort("channels", *key, descending=[True, *[False] * len(key)], nulls_last=True)
        .select(c.name for c in ANALYSIS.columns)
    )
