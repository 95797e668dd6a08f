"""CPU threads."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text

TABLE = Table(
    "threads",
    "a CPU thread",
    (
        RANK,
        RECORDING,
        number("pid", "process id", required=True),
        number("tid", "thread id", required=True),
        text("process_name", "process name"),
        text("thread_name", "thread name"),
        number("priority", "scheduling priority"),
    ),
)
