"""What a scheduler says of its nodes at a moment."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, real, size, text

TABLE = Table(
    "cluster_nodes",
    "a node of a cluster, as its scheduler saw it",
    (
        RANK,
        RECORDING,
        text("host", "the node; a pseudonym unless identities are kept", required=True),
        text("partition", "partition"),
        text("state", "idle, mixed, allocated, drained, down, ..."),
        text("reason", "why it is drained or down"),
        number("cpus", "hardware threads"),
        number("used_cpus", "of these given to jobs"),
        number("gpus", "GPUs"),
        number("used_gpus", "of these given to jobs"),
        size("memory_bytes", "memory"),
        size("used_memory_bytes", "of this given to jobs"),
        real("load", "load average"),
    ),
)
