"""Over what NCCL's channels run."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text

TABLE = Table(
    "nccl_channels",
    "one end of a channel between two ranks, as NCCL set it up",
    (
        RANK,
        RECORDING,
        text("group", "id of the communicator (commId), as hexadecimal digits"),
        number("group_size", "ranks in the communicator"),
        number("channel", "number of the channel", required=True),
        number("source_rank", "rank that sends, in the communicator", "rank", required=True),
        number("target_rank", "rank that receives, in the communicator", "rank", required=True),
        text("end", "send or receive; null where both ends are one line"),
        text("transport", "P2P, SHM, NET or another", required=True),
        text("via", "transport and way, as NCCL says it: NET/IB/0/GDRDMA", required=True),
    ),
)
