"""Calls that a profiler recorded already added up."""

from sightline.core.model.columns import RANK, RECORDING, Table, duration, number, size, text

TABLE = Table(
    "call_sums",
    "all calls of one name on one thread, or all device work or traffic of one name, added up",
    (
        RANK,
        RECORDING,
        number("pid", "process id"),
        number("tid", "thread id"),
        text("kind", "host, device or traffic", required=True),
        text("layer", "as in host_ops"),
        text("category", "the API; of a device kernel, memcpy, memset, page faults or range"),
        text("name", "name as recorded", required=True),
        number("device_id", "device"),
        number("calls", "how many"),
        number("errors", "of these, failed; their time is in no other column"),
        duration("duration_ns", "all that did not fail together; null of traffic"),
        duration("shortest_duration_ns", "the shortest"),
        duration("longest_duration_ns", "the longest"),
        number("bytes", "of traffic and copies: all together", unit="bytes"),
        text("built", "of a kernel: JIT (while the program ran) or AOT (before)"),
        number("simd_width", "of a kernel: work-items that a hardware thread runs together"),
        number("registers_per_thread", "of a kernel: registers that a thread may use"),
        size("shared_bytes", "of a kernel: shared local memory of a work-group"),
        size("private_bytes_per_thread", "of a kernel: its own variables that are in memory"),
        size("spilled_bytes_per_thread", "of a kernel: registers that are kept in memory"),
        number("part", "which of the runs it is of, where one text holds several, from 0"),
        text("command", "what was run there, without its folder and arguments"),
    ),
)
