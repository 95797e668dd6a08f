"""What an MPI call communicates."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, size, text

TABLE = Table(
    "mpi_events",
    "the parameters of an MPI call; of one that completes several requests, a row each",
    (
        RANK,
        RECORDING,
        join("host_op_id", "host_ops.host_op_id", "the call"),
        text("kind", "p2p, collective, start_wait or other", required=True),
        text("direction", "of a message: send or receive"),
        text("stage", "of a message: whole, posted (the call returns at once) or completed"),
        number("mpi_rank", "MPI rank of the caller in the world"),
        number("tag", "message tag"),
        number("peer", "rank at the other end, in the communicator"),
        number("peer_rank", "rank at the other end, in the world"),
        number("root", "root rank of a collective, in the communicator"),
        number("root_rank", "root rank of a collective, in the world"),
        size("bytes", "size of a point-to-point message"),
        size("bytes_sent", "bytes that this rank sends in a collective"),
        size("bytes_received", "bytes that this rank receives in a collective"),
        number("communicator", "communicator, as the caller's handle or number"),
        text("group", "communicator by a name that all its ranks share: world, or which one"),
        number("group_size", "ranks in the communicator"),
        number("request", "request handle"),
    ),
)
