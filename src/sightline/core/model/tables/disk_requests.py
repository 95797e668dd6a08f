"""Requests to disks."""

from sightline.core.model.columns import RANK, RECORDING, Table, number, text, time

TABLE = Table(
    "disk_requests",
    "a request to a disk, from its issue until it is served",
    (
        RANK,
        RECORDING,
        time("start_ns", "when the driver got it"),
        time("end_ns", "when the disk had served it"),
        number("tid", "thread that ran on the CPU that issued it"),
        number("cpu", "CPU core that issued it"),
        number("device", "number of the disk, major and minor"),
        number("sector", "first sector"),
        number("sectors", "sectors, of 512 bytes"),
        text("operation", "read, write, discard or flush, where known"),
    ),
)
