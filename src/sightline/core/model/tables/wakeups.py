"""Wake-ups of CPU threads."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "wakeups",
    "a thread that may run again, because another or an interrupt woke it",
    (
        RANK,
        RECORDING,
        time("time_ns", "when"),
        number("pid", "process id of the thread that woke it"),
        number("tid", "thread that ran on the CPU that woke it; 0 for an idle one"),
        number("cpu", "CPU core that woke it"),
        number("woken_tid", "thread that was woken", required=True),
        number("target_cpu", "CPU core that it is to run on"),
        text("kind", "the event as recorded: sched_waking, sched_wakeup or sched_wakeup_new"),
    ),
)
