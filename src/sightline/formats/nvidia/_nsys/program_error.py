"""How the recorded program ended, by what it printed: Nsight Systems keeps its standard error.

Only what ends a program counts: the last line of a Python traceback, what runtimes say of an
exception or a signal, and among the last lines what a check of a GPU call says.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.redaction import hide_homes
from sightline.formats.nvidia._nsys.database import Database

# `traceback` of Python's standard library; libstdc++'s verbose terminate handler; glibc's abort
# messages and what shells add of a signal; the runtimes of OpenACC (nvhpc), OpenMP offloading
# (LLVM), Fortran (gfortran, ifort, flang), Julia, Rust and Go; Open MPI's and MPICH's aborts.
_TRACEBACK = "Traceback (most recent call last):"
# A file that cannot be compiled has no traceback above it.
_NOT_PYTHON = re.compile(r"^(?:SyntaxError|IndentationError|TabError): .*$", re.M)
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*)(?:Error|Exception|Interrupt|Exit)\b(?::.*)?$", re.M)
_ENDED = re.compile(
    r"^(?:terminate called .*|.*Segmentation fault.*|.*Assertion .* failed\..*|"
    r"\*\*\* .* \*\*\*: terminated|free\(\): .*|malloc\(\): .*|double free .*|Bus error.*|"
    r"FATAL ERROR: .*|Accelerator Fatal Error: .*|Libomptarget fatal error.*|"
    r"Fortran runtime error: .*|forrtl: (?:severe|error).*|Error termination\..*|ERROR STOP.*|"
    r"ERROR: LoadError: .*|panic: .*|"
    # The message follows on the next line since Rust 1.73 (2023).
    r"thread '.*'(?: \(\d+\))? panicked at .*(?:\n(?!note: |stack backtrace).+)?|"
    r"MPI_ABORT was invoked.*|Abort\(\d+\) on node .*|"
    # glibc's dynamic loader (elf/dl-error-skeleton.c, elf/dl-version.c).
    r".*: (?:symbol lookup error|error while loading shared libraries): .*|"
    r".*: version `[\w.]+' not found \(required by .*|"
    # An interpreter that cannot begin: CPython's Modules/main.c and runpy, POSIX shells, argparse.
    r"\S*python[\d.]*(?:\.exe)?: (?:can't open file .*|No module named .*|Error while finding "
    r"module .*)|"
    r"(?:\S*sh: (?:line )?)?(?:\d+: )?\S+: (?:command )?not found|"
    r"\S*sh: (?:line \d+: )?\S+: (?:No such file or directory|Permission denied)|"
    r"\S+: error: (?:the following arguments are required|unrecognized arguments|argument ).*)$",
    re.M,
)
# What checks around calls of CUDA and HIP print before they end a program (cuda-samples'
# helper_cuda.h and what courses teach): "CUDA error at FILE:LINE", "GPUassert: TEXT FILE LINE".
# A program may as well go on after it, so these are among the last lines, and no plain figure.
_CHECKED = re.compile(
    r"^(?:GPUassert: .*|"
    r"(?:\S+ )?(?:CUDA|HIP|cuBLAS|cuDNN|NCCL)[ _-]?(?:\w+[ _-])?(?:error|failure)\b"
    r"(?!:? *[-+]?[\d.]+(?:e[-+]?\d+)?$).*|"
    r".*\b(?:CUDA_ERROR_[A-Z_]+|(?:cuda|hip)Error[A-Z]\w+).*|"
    r".*an illegal memory access was encountered.*)$",
    re.I,
)
# The libraries that Nsight Systems loads into the program.
_OWN_LIBRARY = r"libToolsInjection|/nsight-systems"
_MEND = "Fix that first, and record again: what was recorded ends where it failed."
_UPDATE = (
    "Update Nsight Systems, and record again: its own library, which it loads into the program, "
    "does not fit this machine's C library."
)
_LAST_LINES = 3
_LONGEST = 160
_MOST_TEXT = 1 << 20  # of what was printed, its end


def find_program_error(db: Database) -> list[Quality]:
    """A row of `quality` with the error that ended the program; none where it printed none."""
    if "ProcessStreams" not in db.tables:
        return []
    ids = db.rows("ProcessStreams", ["filenameId", "contentId"])
    streams = db.named(
        ids.with_columns(pl.all().cast(pl.Int64, strict=False)),
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
                    _UPDATE if re.search(_OWN_LIBRARY, found) else _MEND,
                )
            ]
    return []


def find_last_error(text: str) -> str | None:
    """The line that says why a program ended, of what it printed on standard error."""
    at = text.rfind(_TRACEBACK)
    raised = _RAISED.findall(text, at) if at >= 0 else []
    ended = _ENDED.findall(text)
    last = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    checked = [line for line in last if _CHECKED.match(line.strip())]
    broken = _NOT_PYTHON.findall("\n".join(last))
    lines = raised[-1:] or ended[-1:] or broken[-1:] or checked[:1]
    if not lines:
        return None
    whole = " ".join(lines[0].split())
    return whole if len(whole) <= _LONGEST else f"{whole[: _LONGEST - 1]}…"
