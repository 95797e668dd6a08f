"""Launches of compiled kernels as their log has them: with their arguments, without a time."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text

TABLE = Table(
    "logged_launches",
    "launches of one kernel with the same grid and arguments from the same place, without times",
    (
        RANK,
        RECORDING,
        text("name", "the kernel", required=True),
        text("hash", "Triton's hash of the compiled kernel"),
        number("stream_id", "handle of the stream"),
        number("grid_x", "blocks in x"),
        number("grid_y", "blocks in y"),
        number("grid_z", "blocks in z"),
        text("arguments", "name: type of each argument, with shapes and values"),
        text("caller_file", "file of the innermost frame that is neither Triton's nor PyTorch's"),
        number("caller_line", "its line"),
        text("caller", "its function"),
        number("launches", "how many there were", required=True),
    ),
)
