"""Sampled CPU call stacks."""

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    Table,
    duration,
    flag,
    join,
    number,
    text,
    time,
)

TABLE = Table(
    "cpu_samples",
    "a sample of a CPU thread",
    (
        RANK,
        RECORDING,
        time("time_ns", "when"),
        number("pid", "process id"),
        number("tid", "thread id"),
        join("stack_id", "stacks.stack_id", "the stack, leaf node; null where none was taken"),
        duration("weight_ns", "time that the sample stands for, where the recording says"),
        number("weight_cycles", "CPU cycles that the sample stands for", "cycles"),
        number("cpu", "CPU core"),
        flag("on_cpu", "the thread was running"),
        text("state", "thread state"),
    ),
)
