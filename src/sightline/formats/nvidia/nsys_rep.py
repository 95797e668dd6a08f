"""Nsight Systems reports (.nsys-rep, .qdrep), read without nsys.

The reader of the export reads these, too: a report holds the same events, and gives them under the
names of the export's tables (docs/formats/nsys-rep.md says how its format is known).
"""

from __future__ import annotations

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="nsys_rep",
    label="Nsight Systems report",
    strong=(rb"^NVIDIA Tegra Profiler Report",),
    weak=(),
    looks_like="the words 'NVIDIA Tegra Profiler Report' at its start",
    suffixes=(".nsys-rep", ".qdrep"),
    supersedes=(".qdstrm",),
    version=20,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html",
    proven="against nsys' own exports: kernels, copies, memsets, waits, CUDA, OS and MPI calls, "
    "NVTX, samples, scheduling; without an export: CUDA graphs, memory use, JIT, OpenGL; never "
    "seen in a report: unified memory, GPU metrics, OpenMP",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read a report as far as it is intact. Raises DamagedError where no event can be found."""
    from sightline.formats.nvidia._nsys.reading import read_export

    return read_export(source, options)
