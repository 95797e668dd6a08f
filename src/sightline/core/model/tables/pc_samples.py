"""Samples of where warps stood, and why they did not move."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, text

TABLE = Table(
    "pc_samples",
    "samples of one instruction of one kernel for one reason; without samples there is no row",
    (
        RANK,
        RECORDING,
        join("kernel_id", "profiled_kernels.kernel_id", "the execution"),
        number("offset", "bytes from the start of the function's code"),
        text("function", "function that the instruction belongs to"),
        text("opcode", "operation at the offset, where the code is in the recording"),
        text(
            "issued_operation",
            "of samples in which the warp issued: what it issued, the instruction before the "
            "offset, with the modifiers that say how much that does (LDG.128, HMMA.16816.F32), and "
            "@ where a predicate chooses its lanes",
        ),
        text("file", "source file, where the program was built with line information"),
        number("line", "source line"),
        text("reason", "why the warp did not issue, as the vendor names it", required=True),
        text("stall_class", "what kind of wait, in the same words for every vendor"),
        number("samples", "samples with this reason"),
        number(
            "latency_samples",
            "those of them taken while the scheduler issued nothing: part of samples, not more",
        ),
        number("period_cycles", "cycles between samples of one SM"),
    ),
)
