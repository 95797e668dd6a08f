"""What `ncu --csv` prints: raw, details and source pages; and what it prints without --csv.

Format: Nsight Compute CLI, "Console Output" and "Page" options. A wide table has a metric in
each column and the units in its second row; a long one has the columns Metric Name, Metric Unit
and Metric Value; a source page has a row per instruction (`source_page`). Lines of the tool before
the table are skipped.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import encode_utf8
from sightline.errors import DamagedError
from sightline.formats._ncu import read_all
from sightline.formats._text_damage import note_text_damage
from sightline.formats.nvidia._ncu_pages.rows import KernelRows
from sightline.formats.nvidia._ncu_pages.text_page import HEADER, PATTERN, list_records
from sightline.formats.nvidia.ncu_csv.source_page import SourceRows

IMPORTER = Importer(
    name="ncu_csv",
    label="Nsight Compute CSV, or printed details",
    strong=(
        rb'(?:^|\n)(?:\xef\xbb\xbf)?"?ID"?,"?Process ID"?,"?Process Name"?,',
        rb'(?:^|\n)(?:\xef\xbb\xbf)?"?Kernel Name"?,[^\n]*\n"?Address"?,"?Source"?,',
        PATTERN,
    ),
    weak=(),
    looks_like="a CSV table with the columns ID, Process ID, Process Name; Kernel Name above "
    "Address, Source; or ncu's printed sections",
    suffixes=(".csv", ".csv.gz", ".txt", ".log", ".out"),
    version=8,
    source="https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read a table as far as it is intact. Raises DamagedError where it holds no kernel."""
    data, cut = read_all(source)
    data = encode_utf8(data)
    rows, code = KernelRows(), SourceRows()
    broken = 0
    damage: list[str] = [cut] if cut else []
    try:
        header: list[str] | None = None
        text = data.decode("utf-8-sig", "replace")
        records = _records(text)
        if re.search(PATTERN, data):
            header, records = HEADER, list_records(text)
            rows.start(header)
        blank = 0  # lines between rows, of which ncu writes none
        for record in records:
            if header is not None:
                broken += blank if record else 0
                blank = 0 if record else blank + 1
            if header is None:
                if record[:2] == ["ID", "Process ID"]:
                    header = record
                    rows.start(header)
                else:
                    code.add(record)
                continue
            # A cell that nothing ends takes up the next line.
            broken += bool(record) and "\n" in record[0]
            record = rows.fill(record)
            if len(record) != len(header):
                broken += bool(record)
            else:
                rows.add(record)
    except csv.Error as error:
        damage.append(str(error))
    read_rows: KernelRows | SourceRows = rows if rows.kernels else code
    broken += code.broken
    if not read_rows.kernels:
        raise DamagedError(
            f"cannot read {source.given}",
            why=damage[0] if damage else "the table has no kernels",
            hint="Print it again:  ncu --import REPORT --csv --page raw",
        )
    quality = [Quality("damaged", "error", f"the table is damaged: {d}") for d in damage]
    quality += note_text_damage(data)
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
        tables=read_rows.tables(),
        recording=Recording(
            tool="NVIDIA Nsight Compute", host=rows.host if options.keep_identity else None
        ),
        quality=[*quality, *read_rows.quality()],
    )


def _records(text: str) -> Iterator[list[str]]:
    """The table's records; the tool's own lines before it start with '=='."""
    lines = (line for line in io.StringIO(text, newline="") if not line.startswith(("==", "\0")))
    yield from csv.reader(lines)
