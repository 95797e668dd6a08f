"""Stacks that a recording holds already added up, without times."""

import polars as pl

from sightline.core.model.columns import RANK, RECORDING, Column, Table, join, text

TABLE = Table(
    "stack_weights",
    "a weight that the recording gives to a stack",
    (
        RANK,
        RECORDING,
        join("stack_id", "stacks.stack_id", "the stack, leaf node"),
        text(
            "metric",
            "what is counted: samples, latency_samples, cycles, executions, cpu_time_ns, "
            "wall_time_ns (a thread that waits, too), gpu_time_ns, bytes",
            required=True,
        ),
        Column("value", pl.Int64, "how much of it, in the metric's unit", required=True),
        text(
            "match",
            "how the CPU's frames were joined to the device's: exact, bracket, window, "
            "apportioned or unmatched",
            required=True,
        ),
    ),
)
