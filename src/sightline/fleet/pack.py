"""Reduced ranks as bytes, for the way from one machine to another: a few kilobytes each."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from sightline.fleet.reduce import Rank


@dataclass(frozen=True)
class Packed:
    """Ranks of several recordings, and why others have none.

    `rows` are all ranks' collectives as a compressed Arrow file; `ranks` have none of their own,
    and each stands beside its recording's place in the list that was asked for.
    """

    rows: bytes
    ranks: list[tuple[int, Rank]]
    lost: list[tuple[int, str]]


_WHICH = "packed"  # the place in `ranks` that a row belongs to


def pack_ranks(reads: Iterable[tuple[int, Sequence[Rank] | str]]) -> Packed:
    """Each recording's ranks, or why there are none, by its place in the list."""
    ranks: list[tuple[int, Rank]] = []
    lost: list[tuple[int, str]] = []
    for place, found in reads:
        if isinstance(found, str):
            lost.append((place, found))
        else:
            ranks += [(place, rank) for rank in found]
    written = io.BytesIO()
    if ranks:
        numbered = (r.rows.with_columns(pl.lit(n).alias(_WHICH)) for n, (_, r) in enumerate(ranks))
        pl.concat(numbered).write_ipc(written, compression="zstd")
    return Packed(
        written.getvalue(), [(at, replace(r, rows=r.rows.clear())) for at, r in ranks], lost
    )


def unpack_ranks(packed: Packed) -> list[tuple[int, list[Rank] | str]]:
    """What was packed, in order of place."""
    rows = {}
    if packed.rows:
        frame = pl.read_ipc(io.BytesIO(packed.rows))
        parts = frame.partition_by(_WHICH, as_dict=True, include_key=False, maintain_order=True)
        rows = {key[0]: part for key, part in parts.items()}
    found: dict[int, list[Rank] | str] = dict(packed.lost)
    for n, (place, rank) in enumerate(packed.ranks):
        held = found.setdefault(place, [])
        if isinstance(held, list):
            held.append(replace(rank, rows=rows.get(n, rank.rows)))
    return sorted(found.items())


def merge_packed(parts: Sequence[Packed]) -> Packed:
    """Several as one: what ranks have in common compresses better together."""
    return pack_ranks(read for part in parts for read in unpack_ranks(part))
