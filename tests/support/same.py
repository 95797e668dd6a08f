"""Reads a trace with the product's reader and with the reference, and says where they differ."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import reference_reader
from reference_reader import Opinion
from sightline.core.model.columns import conform_columns
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.core.model.tables import load_table
from sightline.errors import SightlineError
from sightline.formats.pytorch import kineto
from sightline.formats.pytorch.kineto import reading as kineto_reading
from sightline.formats.pytorch.kineto.quality import TORCH

_OF_ANOTHER_TOOL = "of another tool"
# What is only said of PyTorch's own traces; the reference takes every trace for one.
_OF_TORCH = (
    "unknown_categories", "no_python_stacks", "no_steps", "one_step", "microsecond_clock",
)  # fmt: skip
# Sizes of collectives are worked out from a table of types: tests/formats states them by hand.
_NOT_OF_EVENTS = ["bytes_in", "bytes_out"]


def product(path: Path) -> Opinion | None:
    """What the product reads; None where it raises its own error."""
    try:
        # The reference repairs nothing: test_kineto_repair states by hand what is read then.
        with patch.object(kineto_reading, "repair_texts", return_value=None):
            imported: Imported = kineto.read(Source(path, "trace.json"), ImportOptions())
    except SightlineError:
        return None
    tables = {n: conform_columns(f, load_table(n).stored) for n, f in imported.tables.items()}
    tables |= {
        n: conform_columns(f, load_table(n).stored).collect() for n, f in imported.large.items()
    }
    for name, whole in imported.whole.items():  # made at once, it is the same table
        made = conform_columns(whole.make(), load_table(name).stored)
        assert made.height == whole.rows
        assert made.equals(tables[name])
    limits = [(q.kind, q.count) for q in imported.quality]
    if imported.recording.tool != TORCH:
        limits.append((_OF_ANOTHER_TOOL, None))
    return Opinion(tables, limits)


def reference(path: Path) -> Opinion | None:
    """What the reference reads; None where it raises its own error."""
    try:
        opinion = reference_reader.read(Source(path, "trace.json"))
    except SightlineError:
        return None
    tables = {n: conform_columns(f, load_table(n).stored) for n, f in opinion.tables.items()}
    return Opinion(tables, opinion.limits)


def differences(path: Path) -> list[str]:
    """What differs between the two readers' answers, in words; empty where nothing does."""
    ours, theirs = product(path), reference(path)
    if ours is None or theirs is None:
        only = "product" if ours is None else "reference"
        return [] if ours is theirs else [f"an error of the {only} only"]
    found = []
    for name, other in theirs.tables.items():
        mine = ours.tables[name]
        if mine.shape != other.shape:
            found.append(f"{name}: {mine.shape} is not {other.shape}")
            continue
        for column in (c for c in mine.columns if c not in _NOT_OF_EVENTS):
            if not mine[column].equals(other[column], null_equal=True):
                where = mine[column].ne_missing(other[column])
                pair = mine[column].filter(where).head(3), other[column].filter(where).head(3)
                found.append(f"{name}.{column}: {pair[0].to_list()} is not {pair[1].to_list()}")
    mine, other = _add_up(ours.limits), _add_up(theirs.limits)
    if _OF_ANOTHER_TOOL in mine:
        other = {kind: count for kind, count in other.items() if kind not in _OF_TORCH}
        del mine[_OF_ANOTHER_TOOL]
    return [*found, *([] if mine == other else [f"{mine} are not {other}"])]


def _add_up(limits: list[tuple[str, int | None]]) -> dict[str, int | None]:
    """How often each kind, however many lines it is said in."""
    found: dict[str, int | None] = {}
    for kind, count in limits:
        found[kind] = count if found.get(kind) is None else (found[kind] or 0) + (count or 0)
    return found
