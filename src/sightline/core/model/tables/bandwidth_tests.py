"""What a benchmark of collectives measured."""

from sightline.core.model.columns import RANK, RECORDING, Table, duration, number, rate, size, text

TABLE = Table(
    "bandwidth_tests",
    "one message size of a collectives benchmark, in place or out of place",
    (
        RANK,
        RECORDING,
        number("test", "number of the benchmark in the log", required=True),
        text("op", "all_reduce, all_gather, ...; null where the log does not show"),
        number("group_size", "ranks that took part"),
        number("machines", "machines that they were on"),
        text("device", "name of the GPUs"),
        text("placement", "out-of-place or in-place", required=True),
        size("bytes", "size of the whole array"),
        number("elements", "elements"),
        text("dtype", "element type"),
        text("reduction", "sum, prod, ...; none"),
        number("root", "root rank; -1 for all, or none", "rank"),
        duration("duration_ns", "time of one operation, as printed"),
        rate("algorithm_bandwidth_gb_per_s", "as printed"),
        rate("bus_bandwidth_gb_per_s", "as printed"),
        number("wrong", "wrong elements; null where it was not checked"),
    ),
)
