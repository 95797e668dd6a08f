"""Page faults of unified memory."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "page_faults",
    "a page fault, or a group of them on one page",
    (
        RANK,
        RECORDING,
        time("time_ns", "when it began"),
        time("end_ns", "when it was served, where known", required=False),
        number("pid", "process id"),
        text("side", "cpu or gpu", required=True),
        number("device_id", "device; null for the CPU"),
        number("address", "virtual address of the page"),
        number("count", "faults on that page"),
        text("access", "read, write, atomic or prefetch"),
        text("function", "CPU function that touched the page"),
        text("module", "binary of that function"),
        text("file", "source file"),
        number("line", "line in the file"),
    ),
)
