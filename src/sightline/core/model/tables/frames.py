"""Frames: the functions that call stacks are made of."""

from sightline.core.model.columns import RANK, RECORDING, Table, ident, number, text

TABLE = Table(
    "frames",
    "a function as call stacks name it",
    (
        RANK,
        RECORDING,
        ident("frame_id", "key"),
        text(
            "layer",
            "python, native, os (the operating system's kernel), or a layer of docs/flames.md",
            required=True,
        ),
        text("function", "name of the function, or its address where that is all there is"),
        text("file", "source file"),
        number("line", "line in the file"),
        text("module", "binary or library"),
    ),
)
