"""Data that go to the host and come back before the next kernel."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run

# Ours: less is a flag, a size or a loss; and what the host hands back may have a border more.
LEAST_BYTES, _SIMILAR = 1 << 20, 0.05
_DEVICE = ["rank", "device_id"]


class RoundTrips(NamedTuple):
    """How many there are, their bytes out and back, and their time with what lies between, ns."""

    number: int
    out_bytes: int
    back_bytes: int
    ns: int


def find_round_trips(run: Run) -> RoundTrips | None:
    """Copies to the host that the next operation copies back, nearly as large, for a kernel.

    None where they are less than half of the bytes of all copies to the host. That it is the same
    data is a conclusion: addresses are not recorded.
    """
    columns = (*_DEVICE, "kind", "copy_kind", "bytes", "start_ns", "end_ns")
    ops = run.columns("device_ops", columns).sort(*_DEVICE, "start_ns", "end_ns")

    def behind(column: str, places: int) -> pl.Expr:
        return pl.col(column).shift(-places).over(_DEVICE)

    share = behind("bytes", 1) / pl.col("bytes")
    trips = ops.select(
        "bytes",
        back=behind("bytes", 1),
        ns=behind("end_ns", 1) - pl.col("start_ns"),
        is_trip=(pl.col("copy_kind") == "DtoH")
        & (pl.col("bytes") >= LEAST_BYTES)
        & (behind("copy_kind", 1) == "HtoD")
        & share.is_between(1 - _SIMILAR, 1 + _SIMILAR)
        & (pl.col("kind").shift(1).over(_DEVICE) == "kernel")
        & (behind("kind", 2) == "kernel"),
    ).filter("is_trip")
    out, back, ns = (sum_column(trips, name) for name in ("bytes", "back", "ns"))
    every = sum_column(ops.filter(pl.col("copy_kind") == "DtoH"), "bytes")
    return None if trips.is_empty() or 2 * out < every else RoundTrips(trips.height, out, back, ns)
