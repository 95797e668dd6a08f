"""AMD rocprof-compute (Omniperf) workloads: kernels with hardware counters, before its analysis.

Format: ROCm/rocm-systems, projects/rocprofiler-compute: a folder with `pmc_perf.csv` (a row a
dispatch and a column a counter, or since ROCm 7 a row each), the passes it was joined of
(`pmc_perf_0.csv`, `SQ_LEVEL_WAVES.csv` …), `timestamps.csv` and the machine (`sysinfo.csv`). Single
files are read, too; only the folder says what the GPU can do.
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="rocprof_compute",
    label="AMD rocprof-compute workload (CSV)",
    strong=(
        rb"^(?:\xef\xbb\xbf)?Dispatch_ID,(?:Kernel_Name,)?GPU_ID,[^\n]*\bGrid_Size,",
        rb"^(?:\xef\xbb\xbf)?GPU_ID,Dispatch_ID,Grid_Size,",
        rb"^FOLDER\n(?:[^\n]*\n)*pmc_perf(?:_\d+)?\.csv(?:\.gz)? ",
    ),
    weak=(),
    looks_like="CSV with Dispatch_ID, GPU_ID, Grid_Size, or a folder with pmc_perf.csv",
    suffixes=(".csv", ".csv.gz"),
    version=5,
    source="https://rocm.docs.amd.com/projects/rocprofiler-compute",
    anchors=("pmc_perf.csv", "sysinfo.csv"),
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all dispatches with their counters. Raises DamagedError where there is none."""
    from sightline.formats.amd.rocprof_compute.reading import read_workload

    return read_workload(source, options)
