"""Where jobs ran, and what a summary knows of each node."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, size, text

TABLE = Table(
    "job_nodes",
    "a node that a job was given",
    (
        RANK,
        RECORDING,
        join("job_row_id", "jobs.job_row_id", "the job"),
        text("host", "the node; a pseudonym unless identities are kept", required=True),
        number("cpus", "hardware threads that the job has there"),
        number("gpus", "GPUs that it has there"),
        size("memory_bytes", "memory that it has there"),
    ),
)
