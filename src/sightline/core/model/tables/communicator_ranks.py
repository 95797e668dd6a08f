"""How far each member of NCCL's communicators had come when its RAS was asked."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "communicator_ranks",
    "a rank of a communicator, and what it had launched at one moment",
    (
        RANK,
        RECORDING,
        text("group", "hash of the communicator, as hexadecimal digits", required=True),
        number("group_size", "ranks in the communicator"),
        number("member", "rank in the communicator", "rank", required=True),
        text(
            "state",
            "running, initializing, finalizing, aborting, error, unresponsive, dead or missing",
            required=True,
        ),
        number("device_id", "GPU of its process, by CUDA's number"),
        number("pid", "its process"),
        text("op", "kind of collective; null for all together"),
        number("launched", "collectives of that kind that it has launched"),
        time("time_ns", "when RAS was asked, on the host's wall clock", required=False),
    ),
)
