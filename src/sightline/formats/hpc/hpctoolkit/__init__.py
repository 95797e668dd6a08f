"""HPCToolkit databases: of version 4 (meta.db, profile.db), and experiment.xml before it."""

from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source

IMPORTER = Importer(
    name="hpctoolkit",
    label="HPCToolkit database",
    strong=(
        rb"^\s*<\?xml[^>]*>\s*<!DOCTYPE HPCToolkitExperiment",
        rb"^FOLDER\n(?:[^\n]*\n)*(?:meta\.db|experiment\.xml) ",
    ),
    weak=(),
    looks_like="a folder with meta.db and profile.db, or with experiment.xml",
    suffixes=(".xml",),
    version=4,
    source="https://gitlab.com/hpctoolkit/hpctoolkit",
    anchors=("meta.db", "profile.db"),
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read the call paths with their times. Raises DamagedError where there is none."""
    from sightline.formats.hpc.hpctoolkit.reading import read_profile

    return read_profile(source)
