"""The SQLite export of a report, made by the nsys that is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sightline.errors import InputError


def export_report(report: Path, folder: Path) -> Path:
    """Export a report into a folder. Raises InputError where nsys is missing or fails."""
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"cannot export {report}",
            why="`nsys`, which does that, is not on the PATH",
            hint="With an export that is there:  "
            "sightline doctor --check-nsys-rep REPORT.nsys-rep EXPORT.sqlite",
        )
    target = folder / "report.sqlite"
    command = [nsys, "export", "--type", "sqlite", "--output", str(target)]
    done = subprocess.run(  # noqa: S603
        [*command, str(report.resolve())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode or not target.is_file():
        said = (done.stderr.strip() or done.stdout.strip()).replace("\n", " ")[-300:]
        raise InputError(
            f"cannot export {report}",
            why=f"`nsys export` failed: {said or 'it gave no reason'}",
            hint="A report is exported by the same or a newer version of nsys than recorded it.",
        )
    return target
