"""Linux perf's own file (perf.data), by way of the user's own `perf script`.

The file depends on the machine that wrote it and on what was installed there; perf itself makes
text of it, which is read as such and removed again.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from sightline.core import registry
from sightline.core.model.cache_folder import open_cache_folder
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.errors import InputError

IMPORTER = Importer(
    name="perf_data",
    label="Linux perf data",
    strong=(rb"^PERFILE2",),
    weak=(),
    looks_like="the letters PERFILE2 at its start",
    suffixes=(".perf.data",),
    version=3,
    source="https://man7.org/linux/man-pages/man1/perf-script.1.html",
)

# What perf_script reads; perf-script(1).
FIELDS = "comm,pid,tid,time,period,event,ip,sym,dso"
# What perf_trace reads.
TRACE_FIELDS = "comm,pid,tid,cpu,time,event,trace"
_LONGEST_S = 600.0  # perf looks up symbols of gigabytes of samples; a damaged file must not hang
_BY_HAND = """\
Where it was recorded:  perf script -i perf.data > run.perf.txt
then:                   sightline run.perf.txt"""


def read(source: Source, options: ImportOptions) -> Imported:
    """Make text of it and read that. Raises InputError where perf is missing or fails."""
    perf = shutil.which("perf")
    if perf is None:
        raise InputError(
            f"cannot read {source.given}",
            why="it is perf's binary file, and `perf`, which makes text of it, is not on the PATH",
            hint=_BY_HAND,
        )
    with tempfile.TemporaryDirectory(prefix="perf-", dir=open_cache_folder()) as scratch:
        text = Path(scratch) / "samples.perf.txt"
        reader, fields = _choose_reader(perf, source)
        # Nothing of the user's configuration, which may name programs to run.
        words = [
            perf,
            "script",
            "--input",
            str(source.plain_path().resolve()),
            "--ns",
            "-F",
            fields,
        ]
        try:
            with text.open("wb") as out:
                done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    timeout=_LONGEST_S,
                    check=False,
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(
                f"cannot read {source.given}", why=f"`perf script` failed: {error}", hint=_BY_HAND
            ) from error
        if not text.stat().st_size:
            said = done.stderr.decode("utf-8", "replace").strip().replace("\n", " ")[-300:]
            raise InputError(
                f"cannot read {source.given}",
                why=f"`perf script` found no sample in it: {said or 'it gave no reason'}",
                hint=_BY_HAND,
            )
        found: Imported = registry.load("importers", reader).read(
            Source(text, source.given), options
        )
    if is_cut(source.path):
        found.quality.append(Quality("truncated", "error", "the end of perf's file is missing"))
    if done.returncode != 0:
        found.quality.append(
            Quality("damaged", "error", "samples are missing: `perf script` stopped at an error")
        )
    return found


def _choose_reader(perf: str, source: Source) -> tuple[str, str]:
    """Which importer reads its text, and the fields that it needs: samples, or the kernel's events.

    `perf evlist` names the events; those of the scheduler are `sched:…`.
    """
    words = [perf, "evlist", "--input", str(source.plain_path().resolve())]
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            words, capture_output=True, stdin=subprocess.DEVNULL, timeout=_LONGEST_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "perf_script", FIELDS
    is_trace = any(line.startswith(b"sched:") for line in done.stdout.splitlines())
    return ("perf_trace", TRACE_FIELDS) if is_trace else ("perf_script", FIELDS)


def is_cut(path: Path) -> bool:
    """Whether the file ends before its header says: `perf script` need not miss what is gone.

    Layout: Linux, tools/perf/Documentation/perf.data-file-format.txt. Behind the samples stand
    offset and size of each feature that the header's bits name. Of a recording that was killed the
    header knows no size, and what was written of it is whole.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(104)
        if len(head) < 104:
            return True
        start, length = struct.unpack_from("<QQ", head, 40)
        if not length:
            return False
        table = 16 * int.from_bytes(head[72:104], "little").bit_count()
        if start + length + table > size:
            return True
        file.seek(start + length)
        features = struct.iter_unpack("<QQ", file.read(table))
    return any(offset + held > size for offset, held in features)
