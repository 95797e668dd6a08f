"""MPI's calls of a program: its recorder, built with the machine's own mpicc, and preloaded.

Each MPI has its own binary interface, so record/collect/mpi/recorder.c is compiled where it is
used, which takes half a second, into the run folder. The variables that start with SIGHTLINE_MPI_
are the recorder's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "mpi" / "recorder.c"
PRELOAD = "LD_PRELOAD"  # ld.so(8)
# What starts the ranks of an MPI job (MPI 4.1, 11.5; Slurm).
LAUNCHERS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "jsrun", "aprun")
_BUILD_S = 60.0


def is_mpi_job(command: Sequence[str]) -> bool:
    """Whether a launcher of MPI stands in the command."""
    return any(Path(word).name in LAUNCHERS for word in command)


def build_recorder(mpicc: str, target: Path) -> str | None:
    """Compile the recorder; what went wrong, or None."""
    words = [mpicc, "-std=c11", "-O2", "-fPIC", "-shared", "-o", str(target), str(SOURCE)]
    try:
        done = subprocess.run(  # noqa: S603  # fixed arguments, no shell
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{mpicc} does not run: {error}"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
    return f"{mpicc} failed: {lines[0].strip()[:200]}"


def make_variables(
    recorder: Path, recording: Mapping[str, Any], base: Mapping[str, str]
) -> dict[str, str]:
    """What the ranks' environment needs; `recording` has folder, mark, ranks and every."""
    variables = {
        PRELOAD: ":".join(filter(None, [str(recorder.resolve()), base.get(PRELOAD)])),
        "SIGHTLINE_MPI_FOLDER": str(Path(recording["folder"]).resolve()),
        "SIGHTLINE_MPI_HOST": str(recording["mark"]),
    }
    if recording.get("ranks"):
        variables["SIGHTLINE_MPI_RANKS"] = ",".join(map(str, recording["ranks"]))
    if recording.get("every", 1) > 1:
        variables["SIGHTLINE_MPI_EVERY"] = str(recording["every"])
    return variables
