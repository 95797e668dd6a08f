"""What a scheduler says of its jobs, where no file is given: `sacct`, read only and bounded."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from sightline.errors import InputError, RequestError

# Ours: a week of a large cluster is some 100,000 jobs, 300 MB as JSON; slurmdbd answers at ten
# thousand jobs a second.
_MOST_BYTES = 1 << 30
_LONGEST_S = 300.0
_FIELDS = (
    "JobID,JobIDRaw,JobName,User,Account,Cluster,Partition,State,ExitCode,Submit,Start,End,"
    "ElapsedRaw,TimelimitRaw,AllocTRES,ReqTRES,ReqMem,NNodes,NCPUS,NodeList,TotalCPU,MaxRSS,"
    "TRESUsageInTot,TRESUsageInAve,TRESUsageInMax,ConsumedEnergyRaw,AdminComment"
)
# What a person can type where the accounting cannot be asked from here.
_GIVE_SOURCE = (
    "Else give a source:  sightline jobs sacct.txt ARCHIVE job.db\n"
    "It can be made by:  sacct --json --allusers --starttime now-7days > jobs.json"
)


def ask_accounting(folder: Path, since: str, job: str | None = None) -> Path:
    """A file in `folder` with what sacct says of jobs since then, or of one job.

    As JSON where this Slurm has it (20.11 and later), else as text. Raises RequestError where there
    is no sacct, InputError where it fails or says more than is read.
    """
    program = shutil.which("sacct")
    if program is None:
        raise RequestError(
            "there is no source, and no sacct on the PATH to ask",
            hint=f"On a login node of Slurm:  sightline jobs\n{_GIVE_SOURCE}",
        )
    which = ["--jobs", job] if job else ["--allusers", "--starttime", since]
    said = ""
    for ending, form in (("json", ["--json"]), ("txt", ["--parsable2", f"--format={_FIELDS}"])):
        target = folder / f"sacct.{ending}"
        code, said = _run_bounded([program, *form, *which], target)
        if code == 0 and target.stat().st_size:
            return target
    hint = f"Does it answer here:  sacct --starttime now-1hours\n{_GIVE_SOURCE}"
    raise InputError("sacct did not answer", why=said or "it printed nothing", hint=hint)


def _run_bounded(command: list[str], target: Path) -> tuple[int, str]:
    """Exit code and the last words of a program whose output goes to a file."""
    environment = {**os.environ, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
    errors = target.with_suffix(".err")
    with target.open("wb") as out, errors.open("wb") as err:
        child = subprocess.Popen(  # noqa: S603 - a program of the PATH, and words of our own
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, env=environment
        )
        try:
            _copy(child, out.write)
        finally:
            with contextlib.suppress(OSError):
                child.kill()
            child.wait()
    words = errors.read_bytes()[-2_000:].decode("utf-8", "replace").strip()
    return child.returncode, words.splitlines()[-1] if words else ""


def _copy(child: subprocess.Popen[bytes], write: Callable[[bytes], object]) -> None:
    """All of its output. Raises InputError where it is too much, or takes too long."""
    assert child.stdout is not None
    end, taken = time.monotonic() + _LONGEST_S, 0
    with selectors.DefaultSelector() as waiting, child.stdout as stream:
        waiting.register(stream, selectors.EVENT_READ)
        while True:
            if not waiting.select(max(0.0, end - time.monotonic())):
                raise InputError(
                    "sacct did not answer",
                    why=f"it took over {_LONGEST_S:.0f} s",
                    hint=f"Ask for less:  sightline jobs --since 1d\n{_GIVE_SOURCE}",
                )
            block = stream.read1(1 << 20)  # type: ignore[attr-defined]
            if not block:
                break
            taken += len(block)
            if taken > _MOST_BYTES:
                raise InputError(
                    "sacct answered with more than can be read at once",
                    hint="Ask for less:  --since 1d",
                )
            write(block)
    child.wait(max(1.0, end - time.monotonic()))
