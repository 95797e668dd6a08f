"""Reads a trace with the product's reader and with the reference, and says where they differ."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

import reference_reader
from sightline.errors import SightlineError
from sightline.importers import kineto
from sightline.model.columns import conform
from sightline.model.declare import Imported, ImportOptions
from sightline.model.source import Source
from sightline.opening.imports import _stored_columns

Answer = tuple[dict[str, pl.DataFrame], dict[str, Any], list[tuple[Any, ...]]]


def answer(reader: ModuleType, path: Path) -> Answer | None:
    """Tables, facts and quality rows of a trace; None where the reader raises its own error."""
    try:
        imported: Imported = reader.read(
            Source(path, "trace.json"), ImportOptions(keep_identity=True)
        )
    except SightlineError:
        return None
    tables = {n: conform(f, _stored_columns(n)) for n, f in imported.tables.items()}
    tables |= {n: conform(f, _stored_columns(n)).collect() for n, f in imported.large.items()}
    # The reference counts characters where the product counts bytes.
    quality = [
        (q.kind, q.severity, re.sub(r"[\d,]+", "#", q.text), q.count, q.remedy)
        for q in imported.quality
    ]
    return tables, vars(imported.recording), quality


def differences(path: Path) -> list[str]:
    """What differs between the two readers' answers, in words; empty where nothing does."""
    ours, theirs = answer(kineto, path), answer(reference_reader, path)
    if ours is None or theirs is None:
        return (
            []
            if ours is theirs
            else [f"an error of the {'product' if ours is None else 'reference'} only"]
        )
    found = []
    for name in sorted(set(ours[0]) | set(theirs[0])):
        mine, other = ours[0].get(name), theirs[0].get(name)
        if mine is None or other is None or mine.shape != other.shape:
            found.append(f"{name}: {mine and mine.shape} is not {other and other.shape}")
            continue
        for column in mine.columns:
            if not mine[column].equals(other[column], null_equal=True):
                where = mine[column].ne_missing(other[column])
                pair = mine[column].filter(where).head(3), other[column].filter(where).head(3)
                found.append(f"{name}.{column}: {pair[0].to_list()} is not {pair[1].to_list()}")
    found += [] if ours[1] == theirs[1] else [f"facts: {ours[1]} are not {theirs[1]}"]
    found += [] if ours[2] == theirs[2] else [f"quality: {ours[2]} is not {theirs[2]}"]
    return found
