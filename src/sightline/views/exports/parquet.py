"""One Parquet file per table, in a folder: all ranks and recordings together, types as declared.

`sightline import -o` writes a store instead: one file per table and recording, which sightline
opens again.
"""

from __future__ import annotations

import io
from pathlib import Path

from sightline.core.model.run import Run
from sightline.views.exports._exporter import Exporter, put

EXPORTER = Exporter(
    name="parquet",
    label="a folder of Parquet files, one per table",
    suffix="-parquet",
    loses="nothing",
)


def write(run: Run, target: Path) -> list[Path]:
    """Write every table that has rows."""
    written = []
    for name in run.present():
        buffer = io.BytesIO()
        run.table(name).write_parquet(buffer)
        written.append(put(target / f"{name}.parquet", buffer.getvalue()))
    return written
