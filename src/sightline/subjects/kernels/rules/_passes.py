"""Kernels whose launches take what memory needs to pass over the program's data once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import find_largest
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.roofline.rates import find_bandwidth
from sightline.subjects.kernels.rules._launches import list_filled

# No cache holds what is told: the largest L2 of a GPU for games is 96 MiB, of older ones 6.
_LEAST_BYTES = 64 << 20
_LEAST_LAUNCHES = 3
# Bytes of the data for each thread: where it is more, threads loop, and may read it many times.
_MOST_BYTES_A_THREAD = 64
# From reading it once at the memory's rate to reading and writing it once at 80 % of that (simple
# passes reach 80 to 95 % of the datasheet's rate).
_LEAST_TIMES, _MOST_TIMES = 1.0, 2.5


@dataclass(frozen=True)
class Passes:
    """What such launches show, in words, and what to do about it."""

    text: str
    fix: str


def find_passes(run: Run, name: str) -> Passes | None:
    """What a kernel's launches are against a pass over the largest array that was copied.

    How much a kernel moves is not in a timeline; that several launches each take one pass's time
    is a sign that memory binds them, and no proof.
    """
    launches = list_filled(run).filter("own", pl.col("name") == name)
    if launches.height < _LEAST_LAUNCHES:
        return None
    rank, device = launches.item(0, "rank"), launches.item(0, "device_id")
    rate = _find_rate(run, rank, device)
    data = find_largest_copy(run, rank, device, ("HtoD", "DtoH"))
    if rate is None or data < _LEAST_BYTES:
        return None
    usual = launches.select(
        pl.col("length").median(), threads=(pl.col("blocks") * pl.col("threads")).median()
    )
    took, threads = usual.row(0)
    once = 1e9 * data / rate
    if threads * _MOST_BYTES_A_THREAD < data or not _LEAST_TIMES <= took / once <= _MOST_TIMES:
        return None
    return Passes(
        f"each of its {format_several(launches.height, 'launch', 'launches')} takes "
        f"{took / once:.1f} times what the memory needs for the {format_bytes(data)} that were "
        f"copied ({rate / 1e9:.0f} GB/s): probably one pass over them at the memory's rate",
        "fewer passes over the data gain more than a faster one: do several steps in one launch, "
        "with values kept in registers or shared memory in between; ",
    )


def _find_rate(run: Run, rank: int, device: int) -> float | None:
    of = run.table("devices").filter(pl.col("rank") == rank, pl.col("device_id") == device)
    return find_bandwidth(of.row(0, named=True)) if of.height else None


def find_largest_copy(run: Run, rank: int, device: int, kinds: Sequence[str]) -> int:
    """Bytes of a device's largest copy of these kinds ("HtoD", …); 0 where none was made."""
    copies = run.columns("device_ops", ("rank", "device_id", "copy_kind", "bytes")).filter(
        pl.col("rank") == rank,
        pl.col("device_id") == device,
        pl.col("copy_kind").cast(pl.String).is_in(list(kinds)),
    )
    return find_largest(copies, "bytes")
