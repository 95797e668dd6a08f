"""The program ended with an error, so what was recorded is its beginning.

Symptom
    A recording that is shorter than the program should run, or in which the GPU has next to nothing
    to do.

Why it hurts
    Nothing in it repeats: imports, uploads and first calls are what a failed run consists of. To
    make them faster makes no program faster.

Evidence
    What the program printed as it ended, where the profiler keeps it (Nsight Systems keeps standard
    error): the last line of a Python traceback, or of an exception or signal of C and C++.

Threshold
    None: a program ended so, or not.

Fix
    Mend the error; for memory that ran out, a smaller batch or activation checkpointing first.

False positives
    A program that catches its exception, prints it, and goes on to its end.

References
    Python documentation, traceback; Nsight Systems User Guide, "Process streams".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.text import capitalize
from sightline.core.units import format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.one_offs import LEAST_OPERATIONS
from sightline.diagnosis.price import TOO_LITTLE

RULE = Rule("program-failed", "The program ended with an error", over_time=True)
_MEMORY = re.compile(r"(?i)out[ _]?of[ _]?memory|cudaErrorMemoryAllocation")
_OF_ANY = "need less memory, or free what other processes hold of the GPU's (nvidia-smi)"
_OF_PYTORCH = (
    "need less memory: a smaller batch, activation checkpointing (torch.utils.checkpoint), half "
    "precision"
)
_INTERRUPTED = re.compile(r"\bKeyboardInterrupt\b")
_MISSING = re.compile(r"(?i)ImportError|ModuleNotFoundError|No such file|cannot open shared object")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, which leads."""
    rows = run.table("quality").filter(pl.col("kind") == "program_error")
    if rows.is_empty():
        return
    text = str(rows.item(0, "text"))
    if run.rows("device_ops") >= LEAST_OPERATIONS:
        yield from _note_end(run, text)
        return
    if _INTERRUPTED.search(text):
        fix = "let it run until it computes (its last lines say what it waited for)"
    elif _MEMORY.search(text):
        fix = _OF_PYTORCH if "torch" in text else choose_fix(run, _OF_ANY, pytorch=_OF_PYTORCH)
    elif _MISSING.search(text):
        fix = "install or build what is missing, where the program is recorded"
    else:
        fix = "fix the error"
    yield build_finding(
        RULE,
        f"{capitalize(text).rstrip('.')}. What was recorded is the beginning of a "
        "program that failed.",
        Evidence([], where={TOO_LITTLE: "the program failed: nothing shows that this recurs"}),
        Advice(
            fix=f"{fix}; then record again",
            verify="sightline findings AFTER: this finding is gone",
            cause="imports, uploads and first calls are all that a failed run has",
        ),
        severity="warning",
        confidence="high",
        states_limit=True,
        is_asked=True,
    )


def _note_end(run: Run, text: str) -> Iterator[Finding]:
    """Of a program that had worked for long: what was recorded until then stands as it is."""
    if _INTERRUPTED.search(text):
        return  # whoever records ends it so
    yield build_finding(
        RULE,
        f"{capitalize(text).rstrip('.')}. It had run "
        f"{format_several(run.rows('device_ops'), 'GPU operation')} by then, which the other "
        "findings are about.",
        Evidence([]),
        Advice(fix="fix the error", verify="sightline findings AFTER: this finding is gone"),
        severity="info",
        confidence="high",
    )
