"""What `ncu --csv` prints: raw and details pages, one row per kernel or one row per metric.

Format: Nsight Compute CLI, "Console Output" and "Page" options. A wide table has a metric in
each column and the units in its second row; a long one has the columns Metric Name, Metric Unit
and Metric Value. Lines of the tool before the table are skipped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats._ncu import read_all
from sightline.formats.nvidia.ncu_csv.rows import KernelRows

IMPORTER = Importer(
    name="ncu_csv",
    label="Nsight Compute CSV",
    strong=(rb'(?:^|\n)(?:\xef\xbb\xbf)?"?ID"?,"?Process ID"?,"?Process Name"?,',),
    weak=(),
    looks_like="a CSV table with the columns ID, Process ID, Process Name",
    suffixes=(".csv", ".csv.gz"),
    version=1,
    source="https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read a table as far as it is intact. Raises DamagedError where it holds no kernel."""
    data, cut = read_all(source)
    rows = KernelRows()
    broken = 0
    damage: list[str] = [cut] if cut else []
    try:
        header: list[str] | None = None
        for record in _records(data.decode("utf-8-sig", "replace")):
            if header is None:
                if record[:2] == ["ID", "Process ID"]:
                    header = record
                    rows.start(header)
            elif len(record) != len(header):
                broken += bool(record)
            else:
                rows.add(record)
    except csv.Error as error:
        damage.append(str(error))
    if not rows.kernels:
        raise DamagedError(
            f"cannot read {source.given}",
            why=damage[0] if damage else "the table has no kernels",
            hint="Print it again:  ncu --import REPORT --csv --page raw",
        )
    quality = [Quality("damaged", "error", f"the table is damaged: {d}") for d in damage]
    if broken:
        quality.append(
            Quality(
                "damaged_parts",
                "error",
                "rows with too few or too many columns were left out",
                broken,
                "Print the table again.",
            )
        )
    return Imported(
        tables=rows.tables(),
        recording=Recording(
            tool="NVIDIA Nsight Compute", host=rows.host if options.keep_identity else None
        ),
        quality=[*quality, *rows.quality()],
    )


def _records(text: str) -> Iterator[list[str]]:
    """The table's records; the tool's own lines before it start with '=='."""
    lines = (line for line in io.StringIO(text, newline="") if not line.startswith(("==", "\0")))
    yield from csv.reader(lines)
