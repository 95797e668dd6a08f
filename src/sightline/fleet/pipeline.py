"""Pipelines of a job: its stages, their schedule, and the time in which stages have no work.

Read from sends and receives whose other rank is known. Ranks that send to each other in a row, or
in a ring, are the stages; the first to send is the first stage. What goes to the following stage is
an activation (a forward pass is over), what goes back a gradient (a backward pass is over).

Schedules by the order of both on the last stage: all forward passes first is GPipe (Huang et al.
2019), one of each in turn 1F1B (PipeDream-Flush), in a ring interleaved 1F1B (both Narayanan et
al. 2021). Where a stage computes between a gradient that it has sent and what it receives next,
backward passes are split: zero-bubble (Qi et al. 2023).

A stage has no work while it waits for what another has not sent, or in a collective of several
stages for those that are not there, and computes nothing. No schedule can give more than all of
that: the bubble's cost is the job's length less that of the rank with most time besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

GPIPE, ONE_F_ONE_B, ZERO_BUBBLE = "GPipe", "1F1B", "zero-bubble"
INTERLEAVED, LOOPED = "interleaved 1F1B", "interleaved, all forward passes first"
# Backward passes are split where a stage computes so much of a micro-batch's time behind most of
# the gradients that it sends: the weights' part is about a third (Qi et al. 2023, figure 1), and
# where nothing is split it computes nothing.
_SPLIT = 0.1
_EDGE = ["source", "target"]


@dataclass(frozen=True)
class Pipeline:
    """`rows` has rank, stage, replica and `bubble_ns`; `schedule` is None where it has no name.

    `micro_batches` are those of a step of one replica, `chunks` how many parts of the model a
    stage holds.
    """

    stages: int
    schedule: str | None
    micro_batches: int
    chunks: int
    rows: pl.DataFrame

    @property
    def least_pct(self) -> float | None:
        """The share of a stage's time that the schedule leaves empty if all else is ideal, %.

        (p - 1) / (v m + p - 1) for p stages, v chunks and m micro-batches (Narayanan et al. 2021,
        sections 2.2.1 and 2.2.2); not known of others.
        """
        if self.schedule not in (GPIPE, ONE_F_ONE_B, INTERLEAVED):
            return None
        empty = self.stages - 1
        return 100 * empty / (self.chunks * self.micro_batches + empty)


def find_pipeline(rows: pl.DataFrame) -> Pipeline | None:
    """The pipeline of a job's rows (`Job.rows`), or None where there is none or it is not known.

    All its replicas must have as many stages.
    """
    met = rows.filter(~pl.col("alone"), pl.col("source").is_not_null())
    sent = met.filter(pl.col("op") == "send").sort("last_ns", "meeting")
    replicas = [r for r in map(_order_stages, _split_replicas(sent)) if r is not None]
    if not replicas or len({len(r) for r in replicas}) > 1:
        return None
    placed = pl.DataFrame(
        [
            (rank, stage, n)
            for n, replica in enumerate(replicas)
            for stage, rank in enumerate(replica)
        ],
        schema=["rank", "stage", "replica"],
        orient="row",
    )
    messages = _name_messages(sent, placed, len(replicas[0]))
    received = met.filter(pl.col("op") == "recv").select("meeting", got_ns="end_ns")
    messages = messages.join(received, on="meeting").sort("replica", "last_ns", "meeting")
    if not _is_in_turn(messages, len(replicas[0])):
        return None
    schedule, batches, chunks = _name_schedule(messages, met, len(replicas[0]))
    bubbles = _measure_bubbles(rows, placed)
    return Pipeline(
        len(replicas[0]),
        schedule,
        batches,
        chunks,
        placed.join(bubbles, on="rank", how="left").with_columns(pl.col("bubble_ns").fill_null(0)),
    )


def _split_replicas(sent: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Messages by sets of ranks that exchange some with each other."""
    root: dict[int, int] = {}

    def find(rank: int) -> int:
        while root.setdefault(rank, rank) != rank:
            rank = root[rank]
        return rank

    for source, target in sent.select(_EDGE).unique().iter_rows():
        low, high = sorted((find(source), find(target)))
        root[high] = low
    of = {rank: find(rank) for rank in root}
    replica = sent.get_column("source").replace_strict(of, default=None, return_dtype=pl.Int64)
    yield from sent.with_columns(replica=replica).partition_by("replica", maintain_order=True)


def _order_stages(sent: pl.DataFrame) -> list[int] | None:
    """The ranks from the first stage to the last; None where they stand in no row and no ring."""
    beside: dict[int, set[int]] = {}
    for source, target in sent.select(_EDGE).unique().iter_rows():
        beside.setdefault(source, set()).add(target)
        beside.setdefault(target, set()).add(source)
    ends = [rank for rank, others in beside.items() if len(others) == 1]
    if len(ends) not in (0, 2) or any(len(others) > 2 for others in beside.values()):
        return None
    first, second = sent.select(_EDGE).row(0)
    if ends and first not in ends:
        return None
    stages = [first, second]
    while len(stages) < len(beside):
        ahead = beside[stages[-1]] - {stages[-2]}
        stages.append(min(ahead))
    return stages


def _name_messages(sent: pl.DataFrame, placed: pl.DataFrame, stages: int) -> pl.DataFrame:
    """Each message with the `stage` that sends it, and `ahead`: whether to the following stage."""
    other = placed.select(target="rank", to="stage")
    own = placed.select("replica", source="rank", stage="stage")
    step = (pl.col("to") - pl.col("stage")) % stages if stages > 2 else pl.col("to")
    return (
        sent.join(own, on="source", maintain_order="left")
        .join(other, on="target", maintain_order="left")
        .with_columns(ahead=step == 1)
    )


def _is_in_turn(messages: pl.DataFrame, stages: int) -> bool:
    """Whether no stage sends ahead before it was sent something; else all exchange at once."""
    ahead = messages.filter("ahead")
    begun = ahead.group_by("replica", "stage").agg(sent=pl.col("start_ns").min())
    got = ahead.group_by("replica", stage="to").agg(got=pl.col("got_ns").min())
    both = begun.filter(pl.col("stage") > 0).join(got, on=["replica", "stage"], how="left")
    wanted = ahead.get_column("replica").n_unique() * max(stages - 2, 0)
    return both.height >= wanted and bool((both["got"] <= both["sent"]).fill_null(False).all())


def _name_schedule(
    messages: pl.DataFrame, met: pl.DataFrame, stages: int
) -> tuple[str | None, int, int]:
    """The schedule's name, micro-batches of a step and chunks of a stage, by the first replica."""
    mine = messages.filter(pl.col("replica") == pl.col("replica").min())
    first = mine.filter(pl.col("stage") == 0, pl.col("ahead"))
    wraps = mine.filter(pl.col("stage") == stages - 1, pl.col("ahead")).height
    back = mine.filter(pl.col("stage") == 1, pl.col("to") == 0, ~pl.col("ahead"))
    steps = _count_steps(first, back)
    each = first.height - wraps
    if not steps or each <= 0 or each % steps or first.height % each:
        return None, 0, 0
    batches, chunks = each // steps, first.height // each
    last = pl.col("stage") == stages - 1
    forward = mine.filter(pl.col("to") == stages - 1, "ahead").select(t="got_ns", ahead=True)
    backward = mine.filter(last, ~pl.col("ahead")).select(t="start_ns", ahead=False)
    order = pl.concat([forward, backward]).sort("t").get_column("ahead")
    turns = order.rle().struct.field("len")
    in_turn = bool(turns.len()) and float(turns.median() or 0) <= 1  # type: ignore[arg-type]
    if batches < 2:
        return None, batches, chunks
    if chunks > 1:
        return (INTERLEAVED if in_turn else LOOPED), batches, chunks
    if not in_turn:
        all_first = turns.min() == batches * chunks
        return (GPIPE if all_first else None), batches, chunks
    split = _is_split(mine, met, steps, batches)
    return (ZERO_BUBBLE if split else ONE_F_ONE_B), batches, chunks


def _count_steps(first: pl.DataFrame, back: pl.DataFrame) -> int:
    """How often the first stage has all gradients of what it sent ahead."""
    events = pl.concat(
        [first.select(t="start_ns", n=pl.lit(1)), back.select(t="got_ns", n=pl.lit(-1))]
    )
    return int((events.sort("t").get_column("n").cum_sum() == 0).sum())


def _is_split(mine: pl.DataFrame, met: pl.DataFrame, steps: int, batches: int) -> bool:
    """Whether a stage computes between most gradients that it sends and the next receive's end.

    Not behind a step's last gradient, where the optimizer runs.
    """
    gradients = set(mine.filter(~pl.col("ahead")).get_column("meeting"))
    own = met.filter(pl.col("rank").is_in(set(mine.get_column("source"))))
    for (_,), rows in own.partition_by("rank", as_dict=True).items():
        sends = rows.filter(pl.col("op") == "send", pl.col("meeting").is_in(gradients))
        if sends.height != steps * batches:
            continue
        worked = int(rows["worked_end_ns"].max() or 0) - int(rows["worked_start_ns"].min() or 0)  # type: ignore[arg-type]
        got = rows.filter(pl.col("op") == "recv").select("worked_end_ns", t="end_ns").sort("t")
        sent = sends.sort("start_ns").select("worked_start_ns", t="start_ns")
        gaps = sent.with_row_index("n").join_asof(
            got, on="t", strategy="forward", allow_exact_matches=False
        )
        gaps = gaps.filter(pl.col("n") % batches < batches - 1)
        behind = gaps.get_column("worked_end_ns") - gaps.get_column("worked_start_ns")
        if 2 * (behind > _SPLIT * worked / (steps * batches)).sum() >= max(gaps.height, 1):
            return True
    return False


def _measure_bubbles(rows: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """How long each rank waits for other stages without computing: `rank`, `bubble_ns`.

    What it computes until the others come is known for the whole wait and transfer only: it is
    taken to lie in the wait, so that no bubble is larger than it was.
    """
    stage = rows.join(placed.select("rank", "stage"), on="rank", how="inner")
    across = pl.col("stage").n_unique().over("meeting") > 1
    beside = pl.col("worked_end_ns") - pl.col("worked_start_ns")
    waits = stage.filter(
        ~pl.col("alone"), across, (pl.col("op") != "send") | (beside == 0), pl.col("wait_ns") > 0
    )
    until = pl.min_horizontal("last_ns", "end_ns")
    none = pl.lit(None, pl.Int64)
    events = pl.concat(
        [
            waits.select("rank", t="start_ns", worked="worked_start_ns", n=pl.lit(1)),
            waits.select("rank", t=until, worked=none, n=pl.lit(-1)),
            waits.select("rank", t="end_ns", worked="worked_end_ns", n=pl.lit(0)),
        ]
    ).sort("rank", "t", "n")
    known = pl.when(pl.col("worked").is_not_null()).then("t").forward_fill().over("rank")
    before = pl.col("worked").forward_fill().over("rank")
    after = pl.col("worked").backward_fill().over("rank")
    worked = pl.coalesce("worked", pl.min_horizontal(after, before + pl.col("t") - known), before)
    events = events.with_columns(worked=worked, open=pl.col("n").cum_sum().over("rank"))
    empty = pl.col("t").diff().over("rank") - pl.col("worked").diff().over("rank")
    is_open = pl.col("open").shift(1).over("rank") > 0
    return (
        events.group_by("rank").agg(bubble_ns=pl.lit(0))
        if events.is_empty()
        else (
            events.with_columns(empty=pl.when(is_open).then(empty.clip(lower_bound=0)))
            .group_by("rank")
            .agg(bubble_ns=pl.col("empty").sum())
        )
    )


def measure_bubble_cost(pipeline: Pipeline, lengths: dict[int, int]) -> int:
    """What no schedule can give more than, ns: the longest rank's length less all ranks' work.

    `lengths` is for each rank how long it takes from the job's begin to its own end.
    """
    bubbles: dict[int, int] = dict(pipeline.rows.select("rank", "bubble_ns").iter_rows())
    left = max(length - bubbles.get(rank, 0) for rank, length in lengths.items())
    return max(0, max(lengths.values()) - left)


def add_stage_excess(rows: pl.DataFrame, pipeline: Pipeline | None, least: int) -> pl.DataFrame:
    """The rows, which have `stage`, with `stage_excess_ns`: compute beyond the median stage's.

    By one factor for each stage, of its ranks' median; 0 with fewer than `least` stages.
    """
    nothing = rows.with_columns(stage_excess_ns=pl.lit(0, pl.Int64))
    if pipeline is None or pipeline.stages < least:
        return nothing
    own = pl.col("compute_ns") - pl.col("compute_excess_ns")
    worked = (
        rows.filter(pl.col("stage").is_not_null())
        .group_by("rank", "stage")
        .agg(worked=pl.col("worked_end_ns").max())
        .group_by("stage")
        .agg(pl.col("worked").median())
    )
    usual = worked.get_column("worked").quantile(0.5, "lower") or 0
    beyond = worked.select(
        "stage", beyond=(1 - usual / pl.col("worked").clip(lower_bound=1)).clip(lower_bound=0)
    )
    return (
        rows.join(beyond, on="stage", how="left", maintain_order="left")
        .with_columns(stage_excess_ns=(own * pl.col("beyond").fill_null(0)).cast(pl.Int64))
        .drop("beyond")
    )
