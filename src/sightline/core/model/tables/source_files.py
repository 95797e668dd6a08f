"""Source texts that a recording carries."""

from sightline.core.model.columns import RANK, RECORDING, Table, text

TABLE = Table(
    "source_files",
    "a source file that was imported into the recording",
    (
        RANK,
        RECORDING,
        text("file", "path as compiled", required=True),
        text("content", "the file's text"),
    ),
)
