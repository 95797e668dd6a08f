"""Nsight Systems reports (.nsys-rep, .qdrep), by way of the user's own `nsys export`.

The report's format is NVIDIA's own and not described; nsys itself writes the SQLite form that
is. The export is made in the cache folder and removed when it has been read.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from sightline import registry
from sightline.errors import InputError
from sightline.model.cache_folder import open_cache_folder
from sightline.model.declare import Imported, Importer, ImportOptions
from sightline.model.source import Source

IMPORTER = Importer(
    name="nsys_rep",
    label="Nsight Systems report",
    strong=(rb"^NVIDIA Tegra Profiler Report",),
    weak=(),
    looks_like="the words 'NVIDIA Tegra Profiler Report' at its start",
    suffixes=(".nsys-rep", ".qdrep"),
    supersedes=(".qdstrm",),
    version=1,
    source="https://docs.nvidia.com/nsight-systems/UserGuide/index.html",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Export the report and read the export. Raises InputError where nsys is missing or fails."""
    nsys = shutil.which("nsys")
    if nsys is None:
        name = Path(source.given)
        raise InputError(
            f"cannot read {source.given}",
            why="it is an Nsight Systems report, and `nsys`, which converts it, is not on the PATH",
            hint=f"On the machine that recorded it:  nsys export --type sqlite {name.name}\n"
            f"then:                             sightline {name.stem}.sqlite",
        )
    with tempfile.TemporaryDirectory(prefix="nsys-", dir=open_cache_folder()) as scratch:
        exported = Path(scratch) / "report.sqlite"
        _export(nsys, source, exported)
        found: Imported = registry.load("importers", "nsys").read(
            Source(exported, source.given), options
        )
    return found


def _export(nsys: str, source: Source, target: Path) -> None:
    """Run `nsys export`; with payloads, such as NCCL's sizes, where that option is known."""
    base = [nsys, "export", "--type", "sqlite", "--output", str(target)]
    said = ""
    for extra in (["--include-blobs=true"], []):
        target.unlink(missing_ok=True)
        try:
            done = subprocess.run(  # noqa: S603
                [*base, *extra, str(source.path.resolve())],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise InputError(
                f"cannot read {source.given}", why=f"{nsys} cannot be run ({error.strerror})"
            ) from error
        if done.returncode == 0 and target.is_file():
            return
        said = (done.stderr.strip() or done.stdout.strip()).replace("\n", " ")[-300:]
    raise InputError(
        f"cannot read {source.given}",
        why=f"`nsys export` failed: {said or 'it gave no reason'}",
        hint="A report is exported by the same or a newer version of nsys than recorded it.",
    )
