"""What kind of work a kernel does, by its name: kernel_kinds.tsv, for the libraries of this year.

Of a program with kernels of its own most have no kind.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import polars as pl

from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.packaged_rows import read_rows
from sightline.timeline.communication_names import PATTERN as COMMUNICATION

COLLECTIVE, PRODUCT, SOFTMAX = "communication", "matrix products", "softmax"
CONVOLUTION = "convolution"


class KindOfName(NamedTuple):
    """A row: names that match are of this kind, with one that does, and who names them so."""

    kind: str
    pattern: str
    example: str
    source: str


@cache
def list_kinds() -> tuple[KindOfName, ...]:
    """The rows of the table, in their order: the first that matches counts."""
    _, *rows = read_rows("sightline.timeline", "kernel_kinds.tsv")
    return tuple(KindOfName(*row) for row in rows)


def name_kinds(names: pl.Series) -> pl.Series:
    """The kind of each kernel's name, null where none is known; to be asked of few names."""
    if names.is_empty():  # the patterns take longer to compile than to match
        return pl.Series("kind", [], pl.String)
    labels = names.map_elements(shorten_kernel_name, return_dtype=pl.String)
    own = pl.coalesce(
        pl.when(pl.lit(labels).str.contains(f"(?i:{row.pattern})")).then(pl.lit(row.kind))
        for row in list_kinds()
    )
    communicates = pl.lit(names).str.contains(COMMUNICATION)
    kind = pl.when(communicates).then(pl.lit(COLLECTIVE)).otherwise(own)
    return pl.select(kind.alias("kind")).to_series()


@cache
def match_kind(kind: str) -> str:
    """A pattern of all names of one kind, whatever the table's order."""
    return f"(?i:{'|'.join(row.pattern for row in list_kinds() if row.kind == kind)})"
