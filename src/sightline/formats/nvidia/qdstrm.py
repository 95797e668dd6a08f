"""Nsight Systems streams (.qdstrm), by way of the user's own QdstrmImporter.

`nsys profile` writes a stream while the program runs, and then calls its importer to make the
report of it. Where the importer is missing, as in Debian's package without the GUI's, or fails, the
stream is all that is left. Its format is NVIDIA's own and not described, and it is known by its
ending only. The report is made in the cache folder, read like any other, and removed.
"""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from sightline.core.model.cache_folder import open_cache_folder
from sightline.core.model.declare import Imported, Importer, ImportOptions
from sightline.core.model.source import Source
from sightline.errors import InputError

IMPORTER = Importer(
    name="qdstrm",
    label="Nsight Systems stream",
    strong=(),
    weak=(),
    looks_like="the ending .qdstrm; its content has no signature",
    suffixes=(".qdstrm",),
    owns=(".qdstrm",),
    version=2,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html",
)
PROGRAM = "QdstrmImporter"
# Where NVIDIA's packages, CUDA's toolkit and Debian's package put it. The newest is asked.
PLACES = (
    "/opt/nvidia/nsight-systems*/*/host-linux-*/" + PROGRAM,
    "/usr/local/cuda*/nsight-systems-*/host-linux-*/" + PROGRAM,
    "/usr/lib/*/nsight-systems/host-linux-*/" + PROGRAM,
    "/usr/lib/nsight-systems/host-linux-*/" + PROGRAM,
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Make the report and read it. Raises InputError where the importer is missing or fails."""
    from sightline.formats.nvidia._nsys.reading import read_export

    program = find_program()
    if program is None:
        name = Path(source.given).name
        report = f"{Path(source.given).stem}.nsys-rep"
        make = shlex.join([PROGRAM, "-i", name, "-o", report])
        raise InputError(
            f"cannot read {source.given}",
            why=f"it is the stream from which nsys makes its report, and {PROGRAM}, which does "
            "that, was not found; it is part of the full Nsight Systems, in host-linux-x64/",
            hint=f"Where Nsight Systems is installed:  {make}\n"
            f"then:                               sightline {shlex.quote(report)}",
        )
    with tempfile.TemporaryDirectory(prefix="nsys-", dir=open_cache_folder()) as scratch:
        report_path = Path(scratch) / "report.nsys-rep"
        _make_report(program, source, report_path)
        return read_export(Source(report_path, source.given), options)


def find_program() -> str | None:
    """The importer: on the PATH, beside the nsys on the PATH, or where packages put it."""
    found = shutil.which(PROGRAM)
    nsys = shutil.which("nsys")
    if found is None and nsys is not None:
        beside = Path(os.path.realpath(nsys)).parent.parent
        found = next((str(p) for p in sorted(beside.glob(f"host-linux-*/{PROGRAM}"))), None)
    if found is None:
        places = sorted(path for pattern in PLACES for path in glob.glob(pattern))
        found = next((p for p in reversed(places) if os.access(p, os.X_OK)), None)
    return found


def _make_report(program: str, source: Source, target: Path) -> None:
    command = [program, "-i", str(source.plain_path().resolve()), "-o", str(target)]
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise InputError(
            f"cannot read {source.given}", why=f"{program} cannot be run ({error.strerror})"
        ) from error
    if done.returncode or not target.is_file():
        said = (done.stderr.strip() or done.stdout.strip()).replace("\n", " ")[-300:]
        raise InputError(
            f"cannot read {source.given}",
            why=f"{program} failed: {said or 'it gave no reason'}",
            hint="A stream is read by the importer of the same version of nsys that wrote it.",
        )
