"""How the recorded program ended, by what it printed: Nsight Systems keeps its standard error.

Only what a runtime prints as it ends a program counts: the last line of a Python traceback, and
what C++ and the C library say of an exception or a signal.
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Quality
from sightline.core.redaction import hide_homes
from sightline.formats.nvidia._nsys.database import Database

# `traceback` of Python's standard library; libstdc++'s verbose terminate handler; glibc's abort
# messages and what shells add of a signal; the runtimes of OpenACC (nvhpc), OpenMP offloading
# (LLVM), Fortran (gfortran, ifort, flang), Julia, Rust and Go; Open MPI's and MPICH's aborts.
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*)(?:Error|Exception|Interrupt|Exit)\b(?::.*)?$", re.M)
_ENDED = re.compile(
    r"^(?:terminate called .*|.*Segmentation fault.*|.*Assertion .* failed\..*|"
    r"\*\*\* .* \*\*\*: terminated|free\(\): .*|malloc\(\): .*|double free .*|Bus error.*|"
    r"FATAL ERROR: .*|Accelerator Fatal Error: .*|Libomptarget fatal error.*|"
    r"Fortran runtime error: .*|forrtl: (?:severe|error).*|Error termination\..*|ERROR STOP.*|"
    r"ERROR: LoadError: .*|thread '.*' panicked at .*|panic: .*|"
    r"MPI_ABORT was invoked.*|Abort\(\d+\) on node .*)$",
    re.M,
)
_LONGEST = 160
_MOST_TEXT = 1 << 20  # of what was printed, its end


def find_program_error(db: Database) -> list[Quality]:
    """A row of `quality` with the error that ended the program; none where it printed none."""
    if "ProcessStreams" not in db.tables:
        return []
    streams = db.named(
        db.rows("ProcessStreams", ["filenameId", "contentId"]),
        name="filenameId",
        text="contentId",
    )
    for name, text in streams.select("name", "text").iter_rows():
        if not name or not text or "stderr" not in str(name):
            continue
        found = find_last_error(str(text)[-_MOST_TEXT:])
        if found is not None:
            found = hide_homes(found)
            return [
                Quality(
                    "program_error",
                    "warning",
                    f"the program ended with an error: {found}",
                    None,
                    "Mend that first, and record again: what was recorded ends where it failed.",
                )
            ]
    return []


def find_last_error(text: str) -> str | None:
    """The line that says why a program ended, of what it printed on standard error."""
    at = text.rfind(_TRACEBACK)
    raised = _RAISED.findall(text, at) if at >= 0 else []
    ended = _ENDED.findall(text)
    lines = raised[-1:] or ended[-1:]
    if not lines:
        return None
    whole = " ".join(lines[0].split())
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 1]}…"
