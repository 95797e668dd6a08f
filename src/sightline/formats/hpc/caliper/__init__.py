"""Caliper profiles: regions with their times, as `.cali` or as JSON (json-split)."""

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="caliper",
    label="Caliper profile (.cali, JSON)",
    strong=(
        rb"^(?:\{|#[^\n]*\n)*__rec=(?:node|ctx|globals)",
        rb'^\s*\{\s*"data"\s*:\s*\[(?:[^"\\]|"[^"]{0,200}"){0,4000}?"column(?:s|_metadata)"\s*:',
        rb'^\s*\{\s*"data"\s*:\s*\[\s*\[\s*\d',
    ),
    weak=(),
    looks_like="lines such as __rec=node,id=8,…, or JSON with data, columns and nodes",
    suffixes=(".cali", ".json"),
    version=5,
    source="https://software.llnl.gov/Caliper/",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the time of every region. Raises DamagedError where no region has one."""
    from sightline.formats.hpc.caliper.reading import read_profile

    return read_profile(source)
