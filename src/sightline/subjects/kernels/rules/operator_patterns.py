"""Operators that do a thing in a way for which there is a faster one.

Symptom
    Many small passes over the same data, types that nobody needs, tables written for a few rows.

Why it hurts
    Each operator reads and writes memory, and waits for a launch: what one operator does in one
    pass takes as many passes as it is written in.

Evidence
    Names, shapes, types and strides of the operators that launched the kernels, as rows of a table
    of patterns (docs/reference.md, "Patterns of operators"), each with its source and with what
    still has to move. The gain is a replay in which that is all that is left, at the rate that the
    better large passes of the run reach: an upper bound.

Threshold
    What could be saved is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    That of the pattern: the operator or option that does the same in fewer passes.

False positives
    Intermediate results that are used elsewhere have to be written.

References
    PyTorch Performance Tuning Guide; torch.profiler's patterns (_pattern_matcher.py); NVIDIA, Deep
    Learning Performance; each pattern names its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.patterns.match import find_patterns

RULE = Rule("operator-patterns", "Operators in a slow way")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for each pattern of this rule."""
    if run.rows("device_ops"):
        yield from find_patterns(run, RULE)
