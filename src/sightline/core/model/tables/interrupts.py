"""Interrupts of CPU cores."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "interrupts",
    "a CPU core handling an interrupt",
    (
        RANK,
        RECORDING,
        time("start_ns", "start"),
        time("end_ns", "end; never before the start"),
        number("cpu", "CPU core"),
        number("tid", "thread that it interrupted; 0 for an idle core"),
        text("kind", "irq, softirq or hrtimer", required=True),
        number("number", "number of the interrupt, or vector of the softirq"),
        text("name", "name of its handler or vector"),
    ),
)
