"""Which ranks cost the job how much, and why: by replays of the job without their excess.

`gain_ns` is how much shorter the job gets if one rank's (or link's) part is like its peers'; by
removal, `share_pct` is that of all that straggling costs; by addition (`alone_ns`), what the job
would lose to it if it were the only straggler. The two differ where stragglers hide each other.
`next_*` is who limits the job then, and what that one's end gains on top.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.scale.job import PARTS, TRANSFER, Job, Scenario, replay_job

# As many of the largest excesses are replayed; a straggler's is larger than those of all its peers.
_TRIED = 12
# A straggler is there throughout where it has excess in so many of ten tenths of the job (ours),
# each of eight collectives or more: a cause may show once in a step.
_TENTHS, _PERSISTENT, _LEAST_ROWS = 10, 0.7, 8
# A clock makes all work longer by one factor: the middle half of the factors of a rank's segments
# lies within so much of their median. More work adds to some (ours; boost clocks wander by 5 %).
_UNIFORM = 0.1
# An imbalance of experts shows between their all-to-alls: nearly all of the excess lies there.
_MOSTLY = 0.8
HOST, WORK, CLOCK, EXPERTS, COPIES, LINK = (
    "host late",
    "more work",
    "slower clock",
    "expert imbalance",
    "copies",
    "slow link",
)
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "cause": pl.String,
    "ranks": pl.List(pl.Int64),
    "gain_ns": pl.Int64,
    "gain_pct": pl.Float64,
    "share_pct": pl.Float64,
    "alone_ns": pl.Int64,
    "excess_ns": pl.Int64,
    "is_persistent": pl.Boolean,
    "next_cause": pl.String,
    "next_ranks": pl.List(pl.Int64),
    "next_gain_ns": pl.Int64,
}


@dataclass(frozen=True)
class Verdict:
    """How long the job takes, how long it would without any straggling, and what stragglers cost.

    `parts` says what the excess of each part costs over all ranks; `stragglers` are worst first.
    """

    length_ns: int
    ideal_ns: int
    parts: dict[str, int]
    stragglers: pl.DataFrame

    @property
    def slowdown(self) -> float:
        """S of the paper: how many times as long as without stragglers the job takes."""
        return self.length_ns / max(self.ideal_ns, 1)


@dataclass(frozen=True)
class _Suspect:
    part: str
    ranks: tuple[int, ...]
    excess_ns: int
    group: int | None = None

    def free(self) -> Scenario:
        """The job without its excess."""
        if self.part == TRANSFER:
            return Scenario((TRANSFER,), group=self.group)
        return Scenario((self.part,), self.ranks)

    def keep(self) -> tuple[Scenario, ...]:
        """The job without all excess but its own; a link's own is not kept."""
        if self.part == TRANSFER:
            return (Scenario((*PARTS, TRANSFER)),)
        others = tuple(part for part in (*PARTS, TRANSFER) if part != self.part)
        return Scenario(others), Scenario((self.part,), self.ranks, kept=True)


def find_stragglers(job: Job, *, least_pct: float = 1.0) -> Verdict:
    """The verdict; those that cost less than `least_pct` of the job's length are left out.

    By removal or by addition: two that hide each other gain nothing one by one.
    """
    every = (*PARTS, TRANSFER)
    suspects = _list_suspects(job)
    whole, ideal, *rest = replay_job(
        job,
        [(), (Scenario(every),), *((Scenario((p,)),) for p in every)]
        + [(suspect.free(),) for suspect in suspects]
        + [suspect.keep() for suspect in suspects],
    )
    parts = dict(zip(every, (whole - n for n in rest), strict=False))
    rest = rest[len(every) :]
    gains = [whole - n for n in rest[: len(suspects)]]
    alone = [max(0, n - ideal) for n in rest[len(suspects) :]]
    order = sorted(range(len(suspects)), key=lambda n: (-gains[n], -alone[n], suspects[n].ranks))
    kept = [n for n in order if 100 * max(gains[n], alone[n]) >= max(least_pct * whole, 1)]
    found = []
    for n in kept:
        suspect = suspects[n]
        following, more = _find_next(job, suspects, n, whole - gains[n])
        found.append(
            {
                "cause": _name_cause(job, suspect),
                "ranks": list(suspect.ranks),
                "gain_ns": gains[n],
                "gain_pct": 100 * gains[n] / whole,
                "share_pct": 100 * gains[n] / max(whole - ideal, 1),
                "alone_ns": alone[n],
                "excess_ns": suspect.excess_ns,
                "is_persistent": _is_persistent(job, suspect),
                "next_cause": None if following is None else _name_cause(job, suspects[following]),
                "next_ranks": None if following is None else list(suspects[following].ranks),
                "next_gain_ns": more,
            }
        )
    return Verdict(whole, ideal, parts, pl.DataFrame(found, schema=_SCHEMA, orient="row"))


def _find_next(
    job: Job, suspects: list[_Suspect], gone: int, length: int
) -> tuple[int | None, int | None]:
    """Who limits the job when one straggler is gone, and what its end gains then, ns.

    It may have hidden behind that one, and gain nothing alone.
    """
    others = [n for n in range(len(suspects)) if n != gone][:_TRIED]
    left = replay_job(job, [(suspects[gone].free(), suspects[n].free()) for n in others])
    best = min(zip(left, others, strict=True), default=(length, 0))
    return (best[1], length - best[0]) if best[0] < length else (None, None)


def _list_suspects(job: Job) -> list[_Suspect]:
    """The largest excesses: of a rank's part, or of a group's transfers."""
    found = [
        _Suspect(part, (rank,), int(excess))
        for part in PARTS
        for rank, excess in job.rows.group_by("rank")
        .agg(pl.col(f"{part}_excess_ns").sum().alias("excess"))
        .filter(pl.col("excess") > 0)
        .sort("excess", "rank", descending=[True, False])
        .head(_TRIED)
        .iter_rows()
    ]
    met = job.rows.filter(~pl.col("alone") & (pl.col("transfer_excess_ns") > 0))
    slow = (
        met.group_by("group_id")
        .agg(
            ranks=pl.col("rank").unique().sort(),
            excess=pl.col("transfer_excess_ns").filter(pl.col("meeting").is_first_distinct()).sum(),
        )
        .sort("excess", "group_id", descending=[True, False])
        .head(_TRIED)
    )
    found += [
        _Suspect(TRANSFER, tuple(ranks), int(excess), group)
        for group, ranks, excess in slow.iter_rows()
    ]
    return sorted(found, key=lambda s: (-s.excess_ns, s.ranks))[: 2 * _TRIED]


def _own_rows(job: Job, suspect: _Suspect) -> pl.DataFrame:
    if suspect.part == TRANSFER:
        return job.rows.filter(pl.col("group_id") == suspect.group)
    return job.rows.filter(pl.col("rank").is_in(suspect.ranks))


def _is_persistent(job: Job, suspect: _Suspect) -> bool:
    """Whether its excess is spread over the job: in most parts a quarter of an even share."""
    own = _own_rows(job, suspect).sort("start_ns")
    pieces = max(1, min(_TENTHS, own.height // _LEAST_ROWS))
    excess = own.select(
        piece=pl.int_range(pl.len()) * pieces // pl.len(), ns=f"{suspect.part}_excess_ns"
    )
    sums = excess.group_by("piece").agg(pl.col("ns").sum()).get_column("ns")
    return int((4 * sums * pieces > suspect.excess_ns).sum()) >= _PERSISTENT * pieces


def _name_cause(job: Job, suspect: _Suspect) -> str:
    if suspect.part == TRANSFER:
        return LINK
    if suspect.part == "idle":
        return HOST
    if suspect.part == "copy":
        return COPIES
    own = _own_rows(job, suspect)
    before = own.select("device_op_id", before="what")
    followed = own.join(before, left_on="anchor", right_on="device_op_id", how="left")
    exchanged = pl.col("before").str.contains(r"(?i)all_?to_?all|dispatch").fill_null(value=False)
    excess = pl.col("compute_excess_ns")
    total, between = followed.select(excess.sum(), b=excess.filter(exchanged).sum()).row(0)
    if between >= _MOSTLY * total > 0:
        return EXPERTS
    worked = followed.filter(pl.col("compute_ns") > 0, pl.col("kernels") > 0)
    usual = pl.col("compute_ns") - excess
    factor = worked.filter(usual > 0).select(f=pl.col("compute_ns") / usual).get_column("f")
    low, middle, high = (factor.quantile(q) or 1.0 for q in (0.25, 0.5, 0.75))
    same = bool((worked.get_column("kernels") <= worked.get_column("usual_kernels")).mean() == 1)
    uniform = middle > 1 and high - low <= _UNIFORM * middle
    return CLOCK if same and uniform else WORK
