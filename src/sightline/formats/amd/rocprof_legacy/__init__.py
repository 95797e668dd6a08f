"""AMD's profilers before rocprofv3: rocprof's CSV, SQLite and JSON; rocprofv2, roctracer.

Format: ROCm/rocm-systems, projects/rocprofiler (rocprof's columns; rocprofv2's plug-in for files)
and projects/roctracer (src/tracer_tool). Times are ns of the machine's clock. They name no GPU but
by number, and no process where the text has none.
"""

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="rocprof_legacy",
    label="rocprof, rocprofv2 or roctracer (CSV, SQLite, JSON, text)",
    strong=(
        rb'^(?:\xef\xbb\xbf)?"?Index"?,"?KernelName"?,',
        rb"^SQLite format 3\x00.*CREATE TABLE \"?KERN\"? ?\(",
        rb'^\{ "traceEvents":\[\{\}\r?\n,\{"args":\{"name":"',
        rb"(?:^|\n)\d{9,19}:\d{9,19} \d+:\d+ [A-Za-z_]",
        rb"(?:^|\n)\d{9,19} \d+:\d+ [0-4]:\d+:\"",
        rb"(?:^|\n)[ \t]*:\w+\s*: correlation_id\(\d+\) time_ns\(\d+:\d+\)",
        rb"(?:^|\n)Dispatch_ID\(\d+\), GPU_ID\(\d+\), ",
        rb"(?:^|\n)Domain\([A-Z_]+\), (?:Function|Operation_Name|Kernel_Name|Timestamp)\(",
    ),
    weak=(),
    looks_like="CSV with Index, KernelName; SQLite with a table KERN; lines such as "
    "START:END PID:TID CALL",
    suffixes=(".csv", ".db", ".txt", ".json"),
    version=9,
    source="https://rocm.docs.amd.com/projects/rocprofiler",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all records. Raises DamagedError where there is none."""
    from sightline.formats.amd.rocprof_legacy.reading import read_records

    return read_records(source)
