"""What an MPI call communicates."""

from sightline.model.columns import RANK, RECORDING, Table, join, number, size, text

TABLE = Table(
    "mpi_events",
    "the parameters of an MPI call",
    (
        RANK,
        RECORDING,
        join("host_op_id", "host_ops.host_op_id", "the call"),
        text("kind", "p2p, collective, start_wait or other", required=True),
        number("mpi_rank", "MPI rank of the caller in the world"),
        number("tag", "message tag"),
        number("peer", "rank at the other end"),
        number("root", "root rank of a collective"),
        size("bytes", "size of a point-to-point message"),
        size("bytes_sent", "bytes that this rank sends in a collective"),
        size("bytes_received", "bytes that this rank receives in a collective"),
        number("communicator", "communicator"),
        number("request", "request handle"),
    ),
)
