"""Reduced ranks as one job: clocks, collectives, and a replay with some of its time taken out.

Each rank comes to a collective when its anchor's end and what lies between are over; the collective
ends as long after its last rank as it was recorded to. Replayed unchanged, that gives the recording
to the nanosecond. What is taken out are excesses: how much longer a rank's compute, copies or idle
time before a collective are than the median of its peers', and a transfer than the median of like
ones. Peers are ranks that do the same collectives in the same order on each stream (a stage of a
pipeline has peers of its own). After "Understanding Stragglers in Large Model Training Using
What-if Analysis" (Lin et al., OSDI 2025; arXiv 2505.05713).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sightline.fleet.pipeline import Pipeline, add_stage_excess, find_pipeline
from sightline.fleet.reduce import Rank
from sightline.timeline.clocks import Fit, find_components, fit_clocks, list_anchors, move_times
from sightline.timeline.collectives import name_kind, pair_members

PARTS = ("compute", "copy", "idle")
TRANSFER = "transfer"
STAGE = (
    "stage"  # compute that a stage of a pipeline has beyond the others, beside its peers' excess
)
EVERY = (*PARTS, STAGE, TRANSFER)
NETWORK = "network"  # not an excess but all that collectives take after their last rank
# Of two ranks none is the usual one, and of two transfers neither.
LEAST_PEERS = 3
PEERS = ["role", "sequence", "twin", "place"]  # rows that agree in these are compared
_BATCH = 16  # scenarios at a time, of 8 bytes for each collective of each rank


@dataclass(frozen=True)
class Scenario:
    """Whose excess is taken out: of these ranks (None: all), of these parts; `group` of transfer.

    `kept` turns it round: the ranks' excess stays, all others' is taken out. `kind` is of what
    transfers, such as all_reduce; None is all.
    """

    parts: tuple[str, ...]
    ranks: tuple[int, ...] | None = None
    kept: bool = False
    group: int | None = None
    kind: str | None = None


@dataclass(frozen=True)
class Job:
    """All ranks' collectives, in an order in which everything comes after what it waits for.

    `rows` has a row for each kernel, with `meeting`, `group_id`, `transfer_ns`, and of each part
    `*_excess_ns`. Before `host_ns` no host of that rank had asked for it, whatever others did, and
    before `usual_host_ns` no usual one would have. `fit` says how the clocks stand, None where
    nothing tells.
    """

    ranks: Sequence[Rank]
    rows: pl.DataFrame
    fit: Fit | None
    begin_ns: int  # the first rank's, on the job's clock
    unmatched: int
    components: int  # sets of ranks that share no collective with others
    pipeline: Pipeline | None = None

    @property
    def compared(self) -> int:
        """How many ranks have peers: of the others nothing is known to be slow, or not to be."""
        return int(self.rows.filter("compared").get_column("rank").n_unique())

    @property
    def why_not_compared(self) -> str | None:
        """Why nothing tells whether a rank makes the job longer; None where something does."""
        if not self.compared:
            return f"fewer than {LEAST_PEERS} do the same collectives in the same order"
        if self.rows.height == self.unmatched:
            return "none of their collectives could be matched"
        return None

    @property
    def is_contradictory(self) -> bool:
        """Whether no clocks make sense of how the collectives were matched."""
        return self.fit is not None and self.fit.is_contradictory


def compose_job(ranks: Sequence[Rank]) -> Job:
    """The job of reduced ranks; ranks of one number are the caller's mistake."""
    ranks = sorted(ranks, key=lambda r: r.rank)
    number = {r.rank: n for n, r in enumerate(ranks)}
    offset = np.cumsum([0, *(r.rows.height for r in ranks)])
    # In one piece: of a thousand ranks each has few rows, and every query takes as long as these.
    heights = [r.rows.height for r in ranks]
    begin = pl.Series(np.repeat(offset[:-1], heights))
    rows = pl.concat([r.rows for r in ranks]).with_columns(
        pl.col("device_op_id") + begin,
        *(
            pl.when(pl.col(c) >= 0).then(pl.col(c) + begin).otherwise(-1).alias(c)
            for c in ("anchor", "queued")
        ),
        who=pl.Series(np.repeat(np.arange(len(ranks)), heights)),
        nth=pl.int_range(pl.len()) - begin,
    )
    described = rows.filter(pl.col("op").is_not_null()).select(
        "device_op_id",
        *("op", "group", "group_size", "sequence", "dtype", "bytes", "members"),
        *("source", "target"),
    )
    ops = rows.select("device_op_id", "rank", "device_id", "kind", "name", "start_ns", "end_ns")
    fit = fit_clocks(list_anchors(ops, described))
    begins = pl.DataFrame({"rank": list(number), "start_ns": [r.begin_ns for r in ranks]})
    if fit is not None and fit.is_apart() and not fit.is_contradictory:
        times = ("start_ns", "end_ns")
        rows = move_times(rows, fit.clocks, times)
        ops = ops.with_columns(rows.select(times))
        begins = move_times(begins, fit.clocks, ("start_ns",))
    worlds = [r.world_size for r in ranks if r.world_size is not None]
    met = _complete_meetings(pair_members(ops, described), max(worlds, default=None)).select(
        "device_op_id", "meeting", "whole", "op", "group", "members", "bytes", "group_size"
    )
    told = ("op", "group", "members", "bytes", "group_size", "sequence", "dtype")
    rows = rows.drop(told).join(met, on="device_op_id", how="left", maintain_order="left")
    last, first_end = pl.col("start_ns").max(), pl.col("end_ns").min()
    # What is no whole collective, or none in time, is an operation by itself.
    fits = pl.col("whole").fill_null(value=False) & (last < first_end).over("meeting")
    rows = rows.with_columns(meeting=pl.when(fits).then("meeting")).with_columns(
        alone=pl.col("meeting").is_null(),
        meeting=pl.coalesce("meeting", -1 - pl.col("device_op_id")),
    )
    rows, begins, components = _begin_together(rows, begins)
    rows = rows.with_columns(
        last_ns=last.over("meeting"),
        transfer_ns=(pl.col("end_ns") - pl.col("start_ns")).min().over("meeting"),
        wait_ns=last.over("meeting") - pl.col("start_ns"),
    )
    # A rank that begins later comes later to its first collective: that is idle time, too.
    first = int(begins.get_column("start_ns").min() or 0)  # type: ignore[arg-type]
    later = begins.select("rank", later=pl.col("start_ns") - first)
    later_ns = pl.when(pl.col("anchor") < 0).then("later").otherwise(0)
    rows = rows.join(later, on="rank", how="left", maintain_order="left").with_columns(
        pl.col("segment_ns") + later_ns, pl.col("idle_ns") + later_ns
    )
    pipeline = find_pipeline(rows)
    rows = add_stage_excess(_add_excess(rows, pipeline), pipeline, LEAST_PEERS)
    rows = _add_host_times(rows, first)
    rows = rows.sort("last_ns", "meeting", "who", "nth")
    unmatched = int(rows.get_column("alone").sum())
    return Job(ranks, rows, fit, first, unmatched, components, pipeline)


def _complete_meetings(members: pl.DataFrame, world_size: int | None) -> pl.DataFrame:
    """The members, `whole` also where all recorded ranks of a larger group have one kernel each.

    What the others did is unknown, but these waited for each other. Which ranks are of a group is
    known where its ranks are listed, or where it is of all ranks of the job.
    """
    listed = pl.col("members").is_not_null()
    if world_size is not None:
        listed |= pl.col("group_size") == world_size
    recorded = pl.col("rank").n_unique().over("group", "members", "group_size")
    ranks, count = pl.col("rank").n_unique().over("meeting"), pl.len().over("meeting")
    is_part = listed.fill_null(value=False) & pl.col("source").is_null()
    is_part &= (recorded < pl.col("group_size")) & (ranks == recorded)
    return members.with_columns(whole=pl.col("whole") | (is_part & (count == ranks) & (ranks > 1)))


def _begin_together(
    rows: pl.DataFrame, begins: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Ranks that share no collective, not by way of others either, moved to begin with the first.

    How their clocks stand nothing tells; also how many such sets of ranks there are.
    """
    met = rows.filter(~pl.col("alone"))
    who, place = met.get_column("who"), met.get_column("meeting").rank("dense")
    component = find_components(
        who.to_numpy(), place.to_numpy().astype(np.int64) - 1, begins.height
    )
    count = len(set(component.tolist()))
    if count > 1:
        moved = begins.with_columns(component=component)
        shift = pl.col("start_ns").min() - pl.col("start_ns").min().over("component")
        moved = moved.select("rank", "start_ns", shift=shift)
        rows = rows.join(moved.select("rank", "shift"), on="rank", maintain_order="left")
        rows = rows.with_columns(pl.col("start_ns", "end_ns") + pl.col("shift")).drop("shift")
        begins = moved.select("rank", pl.col("start_ns") + pl.col("shift"))
    return rows, begins, count


def _add_excess(rows: pl.DataFrame, pipeline: Pipeline | None) -> pl.DataFrame:
    """The rows with what of each part is beyond the median of peers, who are of one stage."""
    rows = rows.with_columns(what=pl.coalesce("op", "name"), stage=pl.lit(None, pl.Int64))
    if pipeline is not None:
        stages = pipeline.rows.select("rank", "stage")
        rows = rows.drop("stage").join(stages, on="rank", how="left", maintain_order="left")
    rows = _find_roles(rows)
    enough = pl.len().over(PEERS) >= LEAST_PEERS
    cut = {}
    for part in PARTS:
        own = pl.col(f"{part}_ns")
        beyond = own - _find_usual(own).over(PEERS)
        cut[f"{part}_excess_ns"] = pl.when(enough).then(beyond.clip(lower_bound=0)).otherwise(0)
    rows = rows.with_columns(
        **cut, compared=enough, usual_kernels=pl.col("kernels").median().over(PEERS)
    )
    like = ["what", "group_size", "bytes"]
    # Of a group that was recorded in part, ranks that nobody saw may have been waited for, too.
    is_part = pl.col("source").is_null() & (pl.len().over("meeting") < pl.col("group_size"))
    met = rows.filter(~pl.col("alone"), ~is_part.fill_null(value=False))
    # Groups of the same ranks use the same links.
    group = pl.coalesce("members", "group").rank("dense").cast(pl.Int64) - 1
    met = met.with_columns(group_id=group).unique("meeting")
    met = met.select("meeting", *like, "group_id", "transfer_ns")
    alike = pl.len().over(like) >= LEAST_PEERS
    # Where no rank has a peer, one link at other times says nothing of the link either.
    if not rows.select(pl.col("compared").any()).item():
        alike &= pl.col("group_id").n_unique().over(like) >= LEAST_PEERS
    usual = _find_usual(pl.col("transfer_ns")).over(like)
    met = met.select(
        "meeting",
        transfer_excess_ns=pl.when(alike)
        .then((pl.col("transfer_ns") - usual).clip(lower_bound=0))
        .otherwise(0),
    )
    rows = rows.join(met, on="meeting", how="left", maintain_order="left")
    return rows.with_columns(
        pl.col("transfer_excess_ns").fill_null(0), group_id=group, op_kind=name_kind(pl.col("what"))
    )


def _find_roles(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `role` and `place`: rows of one role and place are peers.

    A role is the same collectives in the same order on each stream. Between streams there is no
    order: what begins on two at once may begin on either first. Which stream is which is told by
    what runs on it, as their numbers differ from rank to rank.
    """
    lane = ["who", "stream_id"]
    content = pl.struct("what", "group_size", "stage").hash(seed=0)
    ordered = rows.with_columns(content=content).sort(
        *lane, "start_ns", "content", "end_ns", maintain_order=True
    )
    ordered = ordered.with_columns(place=pl.int_range(pl.len()).over(lane))
    lanes = ordered.group_by(lane, maintain_order=True).agg(
        "content", first_ns=pl.col("start_ns").min()
    )
    text = pl.col("content").list.eval(pl.element().cast(pl.String)).list.join(",")
    lanes = lanes.select(*lane, "first_ns", sequence=text.hash(seed=0)).sort(
        "who", "sequence", "first_ns", "stream_id"
    )
    lanes = lanes.with_columns(twin=pl.int_range(pl.len()).over("who", "sequence"))
    role = lanes.group_by("who", maintain_order=True).agg(
        role=pl.col("sequence").cast(pl.String).str.join(",").hash(seed=0)
    )
    return (
        ordered.join(lanes.drop("first_ns"), on=lane, how="left", nulls_equal=True)
        .join(role, on="who", how="left")
        .sort("device_op_id")
        .drop("content")
    )


def _add_host_times(rows: pl.DataFrame, begin_ns: int) -> pl.DataFrame:
    """The rows with when each one's host, and a usual host, can have asked for it, ns from begin.

    A rank that waits for others lets its host run ahead: the idle time that its device shows is
    less than its host would cause if nobody was late. The usual host is the median of whole ones:
    each may stall elsewhere, and none is as fast as all medians in a row. Without a launch, 0.
    """
    asked = (pl.col("start_ns") - pl.col("ahead_ns") - begin_ns).clip(lower_bound=0)
    rows = rows.with_columns(host_ns=asked.cum_max().forward_fill().fill_null(0).over("who"))
    usual = pl.min_horizontal("host_ns", _find_usual(pl.col("host_ns")).over(PEERS))
    enough = pl.len().over(PEERS) >= LEAST_PEERS
    return rows.with_columns(usual_host_ns=pl.when(enough).then(usual).otherwise("host_ns"))


def _find_usual(values: pl.Expr) -> pl.Expr:
    """The median; of two halves that differ, the faster half's: nothing is slow by being faster."""
    return values.quantile(0.5, "lower").cast(pl.Int64)


def replay_job(job: Job, scenarios: Sequence[Sequence[Scenario]]) -> list[int]:
    """How long the job takes with all of each item's scenarios, ns: first begin to last end."""
    return replay_moments(job, scenarios, [])[0]


def replay_moments(
    job: Job, scenarios: Sequence[Sequence[Scenario]], rows: Sequence[int]
) -> tuple[list[int], np.ndarray]:
    """Lengths of the job, and when each of `rows` ends, ns from its begin: [row, scenario]."""
    lengths: list[int] = []
    ends = [np.empty((len(rows), 0), np.int64)]
    for at in range(0, len(scenarios), _BATCH):
        length, _, end = _replay(job, scenarios[at : at + _BATCH])
        lengths += length.tolist()
        ends.append(end[np.array(rows, np.int64)])
    return lengths, np.concatenate(ends, axis=1)


def replay_slower(job: Job, factors: np.ndarray) -> list[int]:
    """How long the job takes with each rank's compute as many times as long: [rank, scenario].

    Ranks in the order of `job.ranks`. Compute beside a collective is taken to delay what follows
    it by all that it becomes longer: no less can be promised, whatever room there was.
    """
    lengths: list[int] = []
    for at in range(0, factors.shape[1], _BATCH):
        some = factors[:, at : at + _BATCH]
        lengths += _replay(job, [()] * some.shape[1], some)[0].tolist()
    return lengths


def _lengthen(rows: pl.DataFrame, place: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """What segments become longer by, ns: [row, scenario]."""
    worked = (rows.get_column("worked_end_ns") - rows.get_column("worked_start_ns")).to_numpy()
    beside = np.where(place >= 0, worked[place], 0)
    compute = rows.get_column("compute_ns").to_numpy() + beside
    who = rows.get_column("who").to_numpy()
    longer: np.ndarray = np.rint(compute[:, None] * (factors[who] - 1)).astype(np.int64)
    return longer


def measure_lengths(job: Job) -> dict[int, int]:
    """How long each rank takes from the job's begin to its own end, ns."""
    last = dict(job.rows.group_by("rank").agg(pl.col("end_ns").max()).iter_rows())
    return {
        r.rank: last[r.rank] - job.begin_ns + r.tail_ns if r.rank in last else r.end_ns - r.begin_ns
        for r in job.ranks
    }


def _replay(
    job: Job, scenarios: Sequence[Sequence[Scenario]], factors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths of the job, the moment at which each row was ready, and its end, per scenario."""
    rows = job.rows
    who = rows.get_column("who").to_numpy()
    place = np.empty(rows.height + 1, np.int64)
    place[rows.get_column("device_op_id").to_numpy()] = np.arange(rows.height)
    place[-1] = -1
    anchor, queued = (place[rows.get_column(c).to_numpy()] for c in ("anchor", "queued"))
    behind = rows.get_column("behind_ns").to_numpy()[:, None]
    segment = np.repeat(rows.get_column("segment_ns").to_numpy()[:, None], len(scenarios), 1)
    asked = np.repeat(rows.get_column("host_ns").to_numpy()[:, None], len(scenarios), 1)
    usual = rows.get_column("usual_host_ns").to_numpy()
    lag = (rows.get_column("end_ns") - rows.get_column("last_ns")).to_numpy()
    lag = np.repeat(lag[:, None], len(scenarios), 1)
    each = [(n, s, part) for n, given in enumerate(scenarios) for s in given for part in s.parts]
    for n, scenario, part in each:
        if part == NETWORK:
            lag[~rows.get_column("alone").to_numpy(), n] = 0
            continue
        cut = rows.get_column(f"{part}_excess_ns").to_numpy()
        if part == TRANSFER:
            if scenario.group is not None:
                cut = cut * _equals(rows, "group_id", scenario.group)
            if scenario.kind is not None:
                cut = cut * _equals(rows, "op_kind", scenario.kind)
            lag[:, n] -= np.minimum(cut, lag[:, n])
        else:
            chosen = _choose(job, scenario)[who]
            segment[:, n] -= cut * chosen
            if part == "idle":
                asked[chosen, n] = usual[chosen]
    if factors is not None:
        segment += _lengthen(rows, anchor, factors)
    end = np.empty((rows.height, len(scenarios)), np.int64)
    ready = np.empty_like(end)
    meeting = rows.get_column("meeting").to_numpy()
    edges = np.flatnonzero(np.diff(meeting)) + 1
    for first, stop in itertools.pairwise([0, *edges, len(meeting)] if len(meeting) else ()):
        of = slice(first, stop)
        before = anchor[of]
        came = np.where(before[:, None] >= 0, end[before], 0) + segment[of]
        came = np.maximum(came, asked[of])
        ahead = queued[of]
        if (ahead >= 0).any():
            came = np.maximum(came, np.where(ahead[:, None] >= 0, end[ahead] + behind[of], 0))
        ready[of] = came
        end[of] = came.max(0) + lag[of]
    # A rank without communication takes as long as it took.
    alone = [0 if r.rows.height else r.end_ns - r.begin_ns for r in job.ranks]
    final = np.repeat(np.array(alone)[:, None], len(scenarios), 1)
    tails = np.array([r.tail_ns for r in job.ranks])
    np.maximum.at(final, who, end + tails[who][:, None])
    return final.max(0), ready, end


def _equals(rows: pl.DataFrame, column: str, value: int | str) -> np.ndarray:
    found: np.ndarray = rows.get_column(column).eq(value).fill_null(value=False).to_numpy()
    return found


def _choose(job: Job, scenario: Scenario) -> np.ndarray:
    """For each rank, whether its excess is taken out."""
    if scenario.ranks is None:
        return np.ones(len(job.ranks), bool)
    named = np.isin([r.rank for r in job.ranks], scenario.ranks)
    chosen: np.ndarray = named != scenario.kept
    return chosen


def trace_path(job: Job) -> pl.DataFrame:
    """The critical path through all ranks: `rank`, `part`, `ns`, from its last moment back.

    Parts: compute, copy, idle (between collectives, and before the rank's first operation),
    transfer, and rest (behind the last one). They sum to the job's length.
    """
    rows = job.rows
    if rows.is_empty():
        return pl.DataFrame(schema={"rank": pl.Int64, "part": pl.String, "ns": pl.Int64})
    _, ready, end = _replay(job, [()])
    who = rows.get_column("who").to_list()
    anchor, queued, behind = (
        rows.get_column(c).to_list() for c in ("anchor", "queued", "behind_ns")
    )
    place = {row: n for n, row in enumerate(rows.get_column("device_op_id").to_list())}
    meeting = rows.get_column("meeting").to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(meeting)) + 1), len(meeting)]
    block = np.searchsorted(edges, np.arange(len(meeting)), side="right") - 1
    tails = np.array([r.tail_ns for r in job.ranks])
    at = int(np.argmax(end[:, 0] + tails[who]))
    found = [(job.ranks[who[at]].rank, "rest", int(tails[who[at]]))]
    parts = {part: rows.get_column(f"{part}_ns").to_list() for part in PARTS}
    while True:
        of = slice(edges[block[at]], edges[block[at] + 1])
        last = of.start + int(np.argmax(ready[of, 0]))
        rank = job.ranks[who[last]].rank
        found.append((rank, TRANSFER, int(end[at, 0] - ready[last, 0])))
        if behind[last] > 0:
            found.append((rank, "idle", behind[last]))
            at = place[queued[last]]
            continue
        found += [(rank, part, values[last]) for part, values in parts.items()]
        if anchor[last] < 0:
            break
        at = place[anchor[last]]
    return pl.DataFrame(found, schema=["rank", "part", "ns"], orient="row").filter(
        pl.col("ns") != 0
    )
