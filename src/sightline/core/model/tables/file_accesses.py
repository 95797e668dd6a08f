"""Files that the program opened, read and wrote."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, size, text, time

TABLE = Table(
    "file_accesses",
    "an access to a file",
    (
        RANK,
        RECORDING,
        time("start_ns", "start"),
        time("end_ns", "end"),
        number("pid", "process id"),
        number("tid", "thread id"),
        number("file_number", "the file, as numbered by the profiler"),
        text("action", "open, close, read, write or metadata"),
        size("bytes", "bytes read or written"),
        text("path", "path of the file; only kept when asked for"),
    ),
)
