"""Figures of real recordings in which we differ from another reader, and why: all of them.

A comparison over the corpus goes through `compare_figures`. A difference that stands here is held
to both of its values: where either changes, the row is out of date and the test says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from support.corpus import name_recording


class Difference(NamedTuple):
    """One figure of one recording, by its path in MANIFEST.tsv."""

    recording: str
    figure: str
    ours: object
    theirs: object
    why: str


UNKNOWN_EVENTS = "events of unknown types, by type and payload"
STATED_SUMS = "rows, calls, ns and the stated ns"
EXPECTED: tuple[Difference, ...] = (
    Difference(
        "intel_unitrace/intel__pti-gpu/cpp_test/dpc_gemm/gold/windows/h.txt",
        STATED_SUMS,
        (54, 517, 4_587_501_400, 4_587_501_400),
        (54, 517, 4_587_501_400, 5_437_019_000),
        "a row was taken out of Intel's file by hand: its total has 849.5 ms that no row has",
    ),
)


def compare_figures(
    path: Path, figure: str, ours: object, theirs: object, *, agree: bool | None = None
) -> None:
    """Fail where the two differ and no row of `EXPECTED` says so; `agree` instead of ==."""
    name = name_recording(path)
    declared = {(d.recording, d.figure): d for d in EXPECTED}.get((name, figure))
    agree = ours == theirs if agree is None else agree
    values = f"{name}: {figure}: ours {ours!r}, theirs {theirs!r}"
    if declared is None:
        assert agree, values
    else:
        assert not agree, f"{values}: no longer a difference, remove it from support/differences.py"
        assert (ours, theirs) == (declared.ours, declared.theirs), f"{values}, not as declared"
