"""Which ranks cost the job how much, and why: by replays of the job without their excess.

`gain_ns` is how much shorter the job gets if one rank's (or link's, or stage's) part is like its
peers'; by removal, `share_pct` is that of all that straggling costs; by addition (`alone_ns`), what
the job would lose to it if it were the only straggler. The two differ where stragglers hide each
other. `next_*` is who limits the job then, and what that one's end gains on top. A pipeline's
bubble is not a straggler, and stands among them for what no schedule can gain more than.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from sightline.fleet.job import (
    EVERY,
    PARTS,
    STAGE,
    TRANSFER,
    Job,
    Scenario,
    measure_lengths,
    replay_job,
    replay_moments,
)
from sightline.fleet.pipeline import measure_bubble_cost
from sightline.fleet.steps import find_step_ends

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
# Sizes of all-to-alls that differ by less are padding (ours).
_UNEVEN = 0.05
# The few worst workers are 3 % of all (Lin et al. 2025, section 4.2).
_FEW = 0.03
HOST, WORK, CLOCK, EXPERTS, COPIES, LINK, SLOW_STAGE, BUBBLE = (
    "host late",
    "more work",
    "slower clock",
    "expert imbalance",
    "copies",
    "slow link",
    "slow stage",
    "pipeline bubble",
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
    "steps": pl.Int64,
    "detail": pl.String,
    "next_cause": pl.String,
    "next_ranks": pl.List(pl.Int64),
    "next_gain_ns": pl.Int64,
}


_STEPS: dict[str, pl.DataType | type[pl.DataType]] = {
    "step": pl.Int64,
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "ideal_ns": pl.Int64,
    "cause": pl.String,
    "ranks": pl.List(pl.Int64),
    "gain_ns": pl.Int64,
}
_KINDS: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": pl.String,
    "gain_ns": pl.Int64,
    "share_pct": pl.Float64,
    "alone_ns": pl.Int64,
}


@dataclass(frozen=True)
class Verdict:
    """How long the job takes, how long it would without any straggling, and what stragglers cost.

    `parts` says what the excess of each part costs over all ranks; `stragglers` are worst first.
    `kinds` has the same by kind of operation, `stages` by stage of a pipeline, both by removal and
    by addition. `steps` has each step's length with and without straggling and its worst
    straggler (`gain_ns` in that step); `steps_by` says how steps were found. `few` are the worst
    3 % of ranks, and `few_ns` what all their excess costs.
    """

    length_ns: int
    ideal_ns: int
    parts: dict[str, int]
    stragglers: pl.DataFrame
    kinds: pl.DataFrame
    stages: pl.DataFrame
    steps: pl.DataFrame
    steps_by: str
    few: list[int]
    few_ns: int

    @property
    def slowdown(self) -> float:
        """S of the paper: how many times as long as without stragglers the job takes."""
        return self.length_ns / max(self.ideal_ns, 1)

    @property
    def few_pct(self) -> float:
        """The share of all straggling that the few worst ranks are to blame for, %."""
        return 100 * self.few_ns / max(self.length_ns - self.ideal_ns, 1)


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
            return (Scenario(EVERY),)
        others = tuple(part for part in EVERY if part != self.part)
        return Scenario(others), Scenario((self.part,), self.ranks, kept=True)


def find_stragglers(job: Job, *, least_pct: float = 1.0) -> Verdict:
    """The verdict; those that cost less than `least_pct` of the job's length are left out.

    By removal or by addition: two that hide each other gain nothing one by one. Who limits the job
    next is left out below that, too, and below what is known of the ranks' clocks.
    """
    suspects = _list_suspects(job)
    step_rows, steps_by = find_step_ends(job)
    (whole, ideal, *rest), ends = replay_moments(
        job,
        [(), (Scenario(EVERY),), *((Scenario((p,)),) for p in EVERY)]
        + [(suspect.free(),) for suspect in suspects]
        + [suspect.keep() for suspect in suspects],
        step_rows,
    )
    shown = EVERY if job.pipeline is not None else (*PARTS, TRANSFER)
    parts = {part: whole - n for part, n in zip(EVERY, rest, strict=False) if part in shown}
    rest = rest[len(EVERY) :]
    gains = [whole - n for n in rest[: len(suspects)]]
    # The only one whose excess is left costs no more than that: its host may stand at a moment that
    # it came to by waiting for the others.
    alone = [
        min(max(0, n - ideal), suspect.excess_ns)
        for n, suspect in zip(rest[len(suspects) :], suspects, strict=True)
    ]
    lengths = np.diff(ends, axis=0, prepend=0)  # [step, scenario]
    own = lengths[:, 2 + len(EVERY) :][:, : len(suspects)]
    saved = lengths[:, :1] - own
    hit = (100 * saved >= least_pct * np.maximum(lengths[:, :1], 1)).sum(0).tolist()
    order = sorted(range(len(suspects)), key=lambda n: (-gains[n], -alone[n], suspects[n].ranks))
    least_ns = max(least_pct / 100 * whole, 1)
    kept = [n for n in order if max(gains[n], alone[n]) >= least_ns]
    known_ns = _find_uncertainty(job)
    causes = {n: _name_cause(job, suspects[n]) for n in kept}
    found = []
    for n in kept:
        suspect = suspects[n]
        following, more = _find_next(job, suspects, n, whole - gains[n])
        if following is None or more is None or more < max(least_ns, known_ns):
            following = more = None
        found.append(
            {
                "cause": causes[n],
                "ranks": list(suspect.ranks),
                "gain_ns": gains[n],
                "gain_pct": 100 * gains[n] / whole,
                "share_pct": 100 * gains[n] / max(whole - ideal, 1),
                "alone_ns": alone[n],
                "excess_ns": suspect.excess_ns,
                "is_persistent": _is_persistent(job, suspect),
                "steps": hit[n] if len(step_rows) > 1 else None,
                "detail": _compare_tokens(job, suspect) if causes[n] == EXPERTS else None,
                "next_cause": None if following is None else _name_cause(job, suspects[following]),
                "next_ranks": None if following is None else list(suspects[following].ranks),
                "next_gain_ns": more,
            }
        )
    found += _judge_bubble(job, whole, least_ns)
    few, few_ns = _judge_few(job, whole)
    return Verdict(
        whole,
        ideal,
        parts,
        pl.DataFrame(found, schema=_SCHEMA, orient="row").sort(
            "gain_ns", descending=True, maintain_order=True
        ),
        _judge_kinds(job, whole, ideal),
        _judge_stages(job, whole, ideal),
        _judge_steps(ends, lengths, saved[:, kept], [(causes[n], suspects[n].ranks) for n in kept]),
        steps_by,
        few,
        few_ns,
    )


def _find_uncertainty(job: Job) -> int:
    """How far ranks' clocks may be apart, ns."""
    return 0 if job.fit is None else int(job.fit.clocks["uncertainty_ns"].max() or 0)  # type: ignore[arg-type]


def _judge_bubble(job: Job, whole: int, least_ns: float) -> list[dict[str, object]]:
    """What the pipeline's stages wait for each other, as one row; none if it costs too little."""
    if job.pipeline is None:
        return []
    cost = measure_bubble_cost(job.pipeline, measure_lengths(job))
    if cost < least_ns:
        return []
    return [
        {
            "cause": BUBBLE,
            "ranks": job.pipeline.rows.get_column("rank").sort().to_list(),
            "gain_ns": cost,
            "gain_pct": 100 * cost / whole,
            "alone_ns": cost,
            "excess_ns": int(job.pipeline.rows.get_column("bubble_ns").sum()),
            "is_persistent": True,
        }
    ]


def _judge_few(job: Job, whole: int) -> tuple[list[int], int]:
    """The 3 % of ranks with most excess, and how much shorter the job is without it."""
    excess = job.rows.group_by("rank").agg(
        ns=pl.sum_horizontal(pl.col(f"{part}_excess_ns").sum() for part in PARTS)
    )
    worst = excess.filter(pl.col("ns") > 0).sort("ns", "rank", descending=[True, False])
    few = worst.head(math.ceil(_FEW * len(job.ranks))).get_column("rank").sort().to_list()
    if not few:
        return [], 0
    return few, whole - replay_job(job, [(Scenario(PARTS, tuple(few)),)])[0]


def _judge_kinds(job: Job, whole: int, ideal: int) -> pl.DataFrame:
    """What the excess of each kind of operation costs over all ranks, by removal and addition."""
    transfers = job.rows.filter(pl.col("transfer_excess_ns") > 0).get_column("op_kind")
    named = [*PARTS, *([STAGE] if job.pipeline is not None else [])]
    free = [(Scenario((part,)),) for part in named]
    keep = [(Scenario(tuple(p for p in EVERY if p != part)),) for part in named]
    kinds = sorted(transfers.drop_nulls().unique())
    segments = Scenario((*PARTS, STAGE))
    for kind in kinds:
        free.append((Scenario((TRANSFER,), kind=kind),))
        others = (Scenario((TRANSFER,), kind=other) for other in kinds if other != kind)
        keep.append((segments, *others))  # type: ignore[arg-type]
    lengths = replay_job(job, [*free, *keep])
    rows = [
        (
            name,
            whole - without,
            100 * (whole - without) / max(whole - ideal, 1),
            max(0, only - ideal),
        )
        for name, without, only in zip(
            [*named, *kinds], lengths[: len(free)], lengths[len(free) :], strict=True
        )
    ]
    found = pl.DataFrame(rows, schema=_KINDS, orient="row")
    return found.sort("gain_ns", "kind", descending=[True, False])


def _judge_stages(job: Job, whole: int, ideal: int) -> pl.DataFrame:
    """What all excess of each stage's ranks costs; no rows where there is no pipeline."""
    schema = {"stage": pl.Int64, "ranks": pl.Int64, "bubble_ns": pl.Int64} | _KINDS
    del schema["kind"]
    if job.pipeline is None:
        return pl.DataFrame(schema=schema)
    stages = job.pipeline.rows.group_by("stage").agg("rank", pl.col("bubble_ns").median())
    stages = stages.sort("stage")
    parts = (*PARTS, STAGE)
    whose = [tuple(ranks) for ranks in stages.get_column("rank").to_list()]
    keep = [(Scenario((TRANSFER,)), Scenario(parts, ranks, kept=True)) for ranks in whose]
    lengths = replay_job(job, [*((Scenario(parts, ranks),) for ranks in whose), *keep])
    return pl.DataFrame(
        [
            (stage, len(ranks), int(bubble), whole - without,
             100 * (whole - without) / max(whole - ideal, 1), max(0, only - ideal))
            for (stage, ranks, bubble), without, only in zip(
                stages.iter_rows(), lengths[: len(whose)], lengths[len(whose) :], strict=True
            )
        ],
        schema=schema,
        orient="row",
    )  # fmt: skip


def _judge_steps(
    ends: np.ndarray,
    lengths: np.ndarray,
    saved: np.ndarray,
    whose: list[tuple[str, tuple[int, ...]]],
) -> pl.DataFrame:
    """Each step as it was and as it would be without straggling, and who costs it most."""
    rows = []
    for step, (end, (length, ideal)) in enumerate(
        zip(ends[:, 0].tolist(), lengths[:, :2].tolist(), strict=True)
    ):
        worst = int(saved[step].argmax()) if whose else 0
        is_any = bool(whose) and saved[step, worst] > 0
        cause, ranks = whose[worst] if is_any else (None, None)
        gain = int(saved[step, worst]) if is_any else None
        rows.append((step, end - length, length, ideal, cause, ranks, gain))
    return pl.DataFrame(rows, schema=_STEPS, orient="row")


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
    if job.pipeline is not None:
        found += [
            _Suspect(STAGE, tuple(sorted(ranks)), int(excess))
            for ranks, excess in job.rows.filter(pl.col("stage").is_not_null())
            .group_by("stage")
            .agg(pl.col("rank").unique(), pl.col("stage_excess_ns").sum())
            .filter(pl.col("stage_excess_ns") > 0)
            .sort("stage")
            .select("rank", "stage_excess_ns")
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


def _compare_tokens(job: Job, suspect: _Suspect) -> str | None:
    """How many times its peers' bytes its all-to-alls carry; None where sizes are alike."""
    own = pl.col("bytes").filter(pl.col("rank").is_in(suspect.ranks)).median()
    others = pl.col("bytes").filter(~pl.col("rank").is_in(suspect.ranks)).median()
    exchanges = job.rows.filter(pl.col("op_kind") == "all_to_all")
    ratio = exchanges.select(ratio=own / others).item()
    if ratio is None or ratio < 1 + _UNEVEN:
        return None
    return f"its all-to-alls carry {ratio:.2f} times as many bytes as other ranks'"


def _name_cause(job: Job, suspect: _Suspect) -> str:
    if suspect.part == TRANSFER:
        return LINK
    if suspect.part == STAGE:
        return SLOW_STAGE
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
