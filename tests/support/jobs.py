"""Ranks of one job whose collectives are known: who comes when, on clocks that are apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.core.model.run import Run
from support import traces


def collective(
    at: float, length: float, *, op: str = "allreduce", members: Sequence[int], **told: Any
) -> traces.Event:
    """A kernel of a collective of 4 MB in float32 (elements: a million), µs."""
    return traces.kernel(
        f"ncclDevKernel_{op}",
        at,
        length,
        **{
            "Collective name": op,
            "dtype": "Float",
            "Process Group Name": "0",
            "Process Group Ranks": str(list(members)),
            "Group size": len(members),
            "In msg nelems": 1_000_000,
            "Out msg nelems": 1_000_000,
            **told,
        },
    )


def opened_job(
    folder: Path,
    arrivals: Sequence[Sequence[float]],
    *,
    transfer: float = 100,
    off: Sequence[float] | None = None,
    **told: Any,
) -> Run:
    """A job of all-reduces: `arrivals[k][rank]` is when a rank comes to the k-th, µs.

    `off` is what each rank's clock adds to the true time, µs.
    """
    ranks = range(len(arrivals[0]))
    away = off or [0.0] * len(ranks)
    events = [
        [
            collective(
                came[rank] + away[rank], max(came) + transfer - came[rank], members=ranks, **told
            )
            for came in arrivals
        ]
        for rank in ranks
    ]
    return traces.opened_ranks(folder, *events)
