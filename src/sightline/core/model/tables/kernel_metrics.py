"""Hardware counters and other measurements of one kernel execution."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, real, text

TABLE = Table(
    "kernel_metrics",
    "a metric of one profiled kernel: its total, or one instance of it",
    (
        RANK,
        RECORDING,
        join("kernel_id", "profiled_kernels.kernel_id", "the execution"),
        text("metric", "name as the profiler writes it", required=True),
        text("unit", "unit in base units (ns, bytes, 1/s, %), where it is known"),
        number(
            "instance_id",
            "what the instance is: a code address, a swept setting, a link; null for the total",
        ),
        text("instance_name", "what the instance is where it has a name, as an opcode has"),
        real("value", "value in base units; null where it is text or not a finite number"),
        number("value_int", "the same, exact, where the profiler wrote an integer"),
        text("text", "value where it is text"),
    ),
)
