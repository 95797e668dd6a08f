"""Context switches of CPU threads."""

from sightline.core.model.columns import RANK, RECORDING, Table, flag, number, text, time

TABLE = Table(
    "sched_events",
    "a thread coming onto or leaving a CPU core",
    (
        RANK,
        RECORDING,
        time("time_ns", "when"),
        number("pid", "process id"),
        number("tid", "thread id"),
        number("cpu", "CPU core"),
        flag("switched_in", "true: the thread starts to run; false: it stops"),
        text("state", "state of the thread after it"),
        text("block_reason", "what it waits for"),
    ),
)
