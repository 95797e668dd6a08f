"""Instructions of profiled kernels, with their source lines."""

from sightline.core.model.columns import RANK, RECORDING, Table, join, number, text

TABLE = Table(
    "instructions",
    "one machine instruction of one profiled kernel that carries measurements",
    (
        RANK,
        RECORDING,
        join("kernel_id", "profiled_kernels.kernel_id", "the execution"),
        number("address", "code address; instance_id of the kernel's per-instruction metrics"),
        number("offset", "bytes from the start of the function's code"),
        text("function", "function that the instruction belongs to"),
        text("opcode", "operation, where the code is in the recording"),
        text("file", "source file, where the program was built with line information"),
        number("line", "source line"),
    ),
)
