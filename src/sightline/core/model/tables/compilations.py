"""Kernels that a compiler built while the program ran."""

from sightline.core.model.columns import (
    RANK,
    RECORDING,
    Table,
    duration,
    flag,
    ident,
    number,
    size,
    text,
)

TABLE = Table(
    "compilations",
    "one kernel that Triton compiled, or found compiled in its cache",
    (
        ident("compilation_id", "key; in the log's order"),
        RANK,
        RECORDING,
        text("name", "the kernel", required=True),
        text("hash", "Triton's hash of source, options and target"),
        number("pid", "process"),
        flag("cache_hit", "it was found in the cache, and not compiled"),
        text("target", "backend and architecture, such as cuda 90"),
        number("num_warps", "warps of a block"),
        number("num_stages", "stages of software pipelining"),
        number("num_ctas", "blocks of a cluster"),
        size("shared_bytes", "shared memory of a block"),
        text("constants", "values of the arguments that were compiled in, by their places"),
        text("file", "source file of the kernel"),
        number("line", "its first line"),
        text("caller_file", "file of the innermost frame that is neither Triton's nor PyTorch's"),
        number("caller_line", "its line"),
        text("caller", "its function"),
        text(
            "pytorch_frame", "torch.compile's frame, compilation and attempt, such as 0/0 or 0/0_1"
        ),
        duration("duration_ns", "all stages together, of a cache hit the search in the cache"),
    ),
)
