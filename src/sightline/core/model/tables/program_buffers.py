"""What a compiled program's memory is for, as its compiler laid it out."""

from sightline.core.model.columns import RANK, RECORDING, Table, flag, number, size, text

TABLE = Table(
    "program_buffers",
    "a buffer that a compiler placed in one of a program's allocations",
    (
        RANK,
        RECORDING,
        text("program", "the compiled program: jit_train_step(12)", required=True),
        number("allocation", "the allocation that the buffer lies in", required=True),
        size("allocation_bytes", "the allocation's size; buffers in it may share its bytes"),
        number("memory_space", "memory space by XLA's number; 0 is the device's memory"),
        text(
            "buffer_kind",
            "what the allocation is for: parameter, output, thread_local, constant or temporary",
            required=True,
        ),
        number("buffer", "the compiler's number of the buffer; null in an empty allocation"),
        size("bytes", "the buffer's size"),
        text("instruction", "the instruction that makes it, with its place in a tuple: dot.1{0}"),
        text("operation", "the operation of the program's source: jit(f)/dot_general"),
        text("shape", "element type and dimensions: bf16[8192,1024]"),
        text("file", "source file of the operation"),
        number("line", "line in it"),
        flag("at_peak", "live when its allocation has the most bytes in use"),
    ),
)
