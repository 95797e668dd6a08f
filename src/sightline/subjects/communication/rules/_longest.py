"""The one collective that takes most of a window, by its own name: what it is, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_pct
from sightline.replay.gains import sum_windows
from sightline.subjects.communication.rules._advice import find_parallelism, name_by_kernel
from sightline.timeline.collectives import name_kind
from sightline.timeline.communication import list_communication

# One of many stands out where it takes more than a fourth of all their time (ours: of ten alike
# none does), and more than five times the median one (ours, twice slow-variant's twice and a half).
_SHARE, _MEDIANS, _LEAST = 0.25, 5.0, 4
_WORDS = {
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_reduce": "all-reduce",
    "all_to_all": "all-to-all",
    "broadcast": "broadcast",
    "send_recv": "send and receive",
}


@dataclass(frozen=True)
class Longest:
    """A collective that takes much of the window by itself."""

    kind: str
    ns: int
    pct: float  # of the window
    others: int
    median_ns: int
    size: int | None
    dtype: str | None
    ranks: int  # on how many ranks it takes as long, from the last one's arrival on
    waits_ns: int = 0  # for a GPU of the recording that begins it so much later
    waits_for: str = ""

    @property
    def name(self) -> str:
        """'all-gather'."""
        return _WORDS.get(self.kind, self.kind)

    def describe(self) -> str:
        """'one all-gather of 2.1 GB (bfloat16) takes 441.5 ms, 44.7 % of the window; …'."""
        of = f" of {format_bytes(self.size)}" if self.size else ""
        of += f" ({self.dtype})" if self.dtype else ""
        same = f"; as long on all {self.ranks} ranks, so the link is slow" if self.ranks > 1 else ""
        if self.waits_ns:
            same = f"; {self.waits_for} begins it {format_ns(self.waits_ns)} later, so it waits"
        unknown = "" if self.size or self.waits_ns else "; its bytes were not recorded"
        return (
            f"one {self.name}{of} takes {format_ns(self.ns)}, {format_pct(self.pct)} of the "
            f"window; the median of all {self.others + 1} takes {format_ns(self.median_ns)}"
            f"{same}{unknown}"
        )

    def advise(self, run: Run) -> str:
        """What to do about this one."""
        if self.waits_ns:
            return (
                f"see what the process of {self.waits_for} does before it (loading, copies, a "
                "longer step), and let it begin as early as the others"
            )
        if self.kind == "all_gather" and find_parallelism(run) == "tensor":
            return (
                "do not gather the whole result: if these are a model's outputs (logits), keep "
                "them split, take the last position only, or send them in 16 bits"
            )
        return f"see what this {self.name} sends, and send less of it: a part, or smaller types"


def find_longest_collective(run: Run) -> Longest | None:
    """The collective that stands out among those of the window, or None."""
    comm = list_communication(run).with_columns(
        ns=pl.col("end_ns") - pl.max_horizontal("start_ns", "last"),
        kind=pl.coalesce(name_kind(pl.col("op")), name_by_kernel(pl.col("name"))),
    )
    if comm.height < _LEAST:
        return None
    row = comm.sort("ns", "device_op_id", descending=[True, False]).row(0, named=True)
    median = int(comm.get_column("ns").median() or 0)  # type: ignore[arg-type]
    mine = comm.filter(pl.col("rank") == row["rank"], pl.col("device_id") == row["device_id"])
    if row["ns"] <= _SHARE * sum_column(mine, "ns") or row["ns"] <= _MEDIANS * median:
        return None
    known = run.table("collectives").filter(pl.col("device_op_id") == row["device_op_id"])
    together = comm.filter(pl.col("meeting").eq_missing(row["meeting"]))
    late = None if row["meeting"] is not None else _find_late_peer(comm, row)
    return Longest(
        kind=row["kind"] or "collective",
        ns=row["ns"],
        pct=100 * row["ns"] * run.ask("breakdown").height / sum_windows(run),
        others=mine.height - 1,
        median_ns=median,
        size=row["size"],
        dtype=known.item(0, "dtype") if known.height else None,
        ranks=together.filter(2 * pl.col("ns") > row["ns"]).get_column("rank").n_unique()
        if row["meeting"] is not None
        else 1,
        waits_ns=0 if late is None else late[0],
        waits_for="" if late is None else late[1],
    )


def _find_late_peer(comm: pl.DataFrame, row: dict[str, Any]) -> tuple[int, str] | None:
    """By how much a GPU of the recording begins this collective later, ns, and which one.

    Nothing says which kernels meet. Of one name the first on another GPU, meanwhile, that begins
    in the second half is what is waited for.
    """
    device = ["rank", "device_id"]
    others = comm.filter(
        pl.col("name") == row["name"],
        (pl.col("rank") != row["rank"]) | (pl.col("device_id") != row["device_id"]),
        pl.col("start_ns").is_between(row["start_ns"], row["end_ns"]),
    )
    first = others.group_by(device).agg(pl.col("start_ns").min()).sort("start_ns", *device)
    if first.is_empty():
        return None
    rank, number, begins = first.row(-1)
    late = begins - row["start_ns"]
    is_rank = comm.get_column("rank").n_unique() > 1
    label = f"rank {rank}" if is_rank else f"GPU {number}"
    return (late, label) if 2 * late > row["end_ns"] - row["start_ns"] else None
