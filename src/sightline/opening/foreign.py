"""Files that people give and that are no recording, or not in a form that is read: what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Foreign:
    """What a file is, and what to type instead where there is something."""

    pattern: bytes  # in the file's head
    what: str
    hint: str | None = None


_NSYS = """\
Export it as SQLite:  nsys export --type sqlite REPORT.nsys-rep
then:                 sightline REPORT.sqlite"""
_FOREIGN = (
    Foreign(
        rb'^\s*\{\s*"(?:type|Type)"\s*:\s*"?\w+"?\s*,\s*"(?:id|value)"\s*:',
        "it is an Nsight Systems export as JSON lines, which is not read",
        _NSYS,
    ),
    Foreign(
        rb"^(?:\xef\xbb\xbf)?\"?(?:Start \(ns\)|Time \(%\)|Time\(%\))\"?,",
        "it is a table of nsys stats, which is not read",
        _NSYS,
    ),
    Foreign(
        rb"^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs\"?,?",
        "it is a summary of rocprofv3, which no longer has the single kernels and calls",
        "Give the trace that it was made of, or record one:  rocprofv3 --sys-trace -- PROGRAM",
    ),
    Foreign(
        rb"^\x80[\x02-\x05]",
        "it is a Python pickle, but no memory snapshot of PyTorch; other pickles are not read",
        "torch.cuda.memory._dump_snapshot(PATH) writes a memory snapshot.",
    ),
    Foreign(
        rb"^\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE svg[^>]*>\s*)?<svg",
        "it is a picture (SVG)",
        "py-spy writes what is read with  --format speedscope",
    ),
    Foreign(rb'^\s*\{.{0,65000}"nbformat"\s*:\s*\d', "it is a Jupyter notebook"),
    Foreign(rb"^%PDF-", "it is a PDF document"),
    Foreign(rb"^(?:\x89PNG|\xff\xd8\xff|GIF8)", "it is a picture"),
    Foreign(rb"^PK\x03\x04", "it is a ZIP archive", "Unpack it, and give what is in it."),
    Foreign(rb"^.{257}ustar", "it is a tar archive", "Unpack it, and give what is in it."),
    Foreign(rb"^(?:\x7fELF|MZ)", "it is a program", "To record it:  sightline run -- PROGRAM"),
    Foreign(rb"^\s*<(?:!DOCTYPE html|html)", "it is an HTML page"),
)


def recognise_foreign(head: bytes) -> Foreign | None:
    """What the file is, if it is one of those that are known to be no recording."""
    return next(
        (f for f in _FOREIGN if re.search(f.pattern, head, re.DOTALL | re.IGNORECASE)), None
    )
