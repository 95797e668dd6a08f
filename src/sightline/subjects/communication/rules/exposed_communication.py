"""Communication is exposed: no compute runs beside it.

Symptom
    Collective kernels (NCCL, RCCL, oneCCL, NVSHMEM) that no compute overlaps.

Why it hurts
    While a device only communicates, its arithmetic units do nothing. Much of that time is often
    not transfer but waiting: a collective kernel runs from this rank's arrival on, so a rank that
    arrives early pays for one that arrives late.

Evidence
    Exposed communication per rank (`sightline stats breakdown`, `overlap`). With several ranks:
    those that spend clearly less time in communication arrive last, and the others wait for them.
    Where collectives could be matched across ranks, waiting is left to straggler-rank and
    imbalance, small collectives and pipelines to their rules. The gain is a replay in which
    transfers take no time once all ranks have arrived: the most that hiding them can give. Of
    reductions in a row, such as gradients behind a backward pass, the last has no compute left to
    hide behind, and keeps its time, up to that of a bucket. From one rank alone: the rate of the
    fastest of like operations, beside what the GPU's links have (docs/roofline.md); how much runs
    on streams that compute; whether most are as short as a start; what all would take at the pace
    of the fastest like ones, where that is less than half: the rest is waiting.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08). A rank counts as late where its share of
    communication lies more than 10 points under the next one's.

Fix
    If some ranks are late: make them faster first (their own idle and compute say what they do).
    Else overlap: smaller buckets earlier (DDP bucket_cap_mb), prefetch (FSDP backward_prefetch),
    or less to send (gradient accumulation, compression, other parallel layout).

False positives
    Ranks of different roles (pipeline stages, parameter servers) need not communicate alike.

References
    TraceLens NcclAnalyser (AMD-AGI/TraceLens, 2026-08); NVIDIA/nccl-tests doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.intervals import measure_cover
from sightline.core.algebra.scalars import average_column, find_largest, find_span, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import (
    MAX_ROWS,
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    abstain,
    make_finding,
)
from sightline.replay.gains import sum_windows
from sightline.replay.replay import scale_ops
from sightline.subjects.communication.reductions import list_early_reductions, measure_early
from sightline.subjects.communication.rules._advice import (
    advise_overlap,
    advise_short,
    advise_stream,
)
from sightline.subjects.communication.rules._late import name_ranks
from sightline.subjects.communication.rules._longest import find_longest_collective
from sightline.subjects.communication.rules._transfers import (
    Rate,
    describe_many_short,
    describe_peers_figure,
    describe_waiting,
    find_best_rate,
    measure_shared_stream,
)
from sightline.timeline.classes import COMPUTE, list_class
from sightline.timeline.collectives import name_kind
from sightline.timeline.communication import SEND_RECV, list_communication

RULE = Rule("exposed-communication", "Exposed communication")

LATE_POINTS = 10.0
# What PyTorch sends at once (DistributedDataParallel, bucket_cap_mb=25).
BUCKET_BYTES = 25 << 20
_REDUCTIONS = ("all_reduce", "reduce_scatter")
# Most of communication is on streams that compute (ours: more than half).
SHARED_PCT = 50.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    overlap = run.ask("overlap").drop("exposed_comm_ns", "compute_ns")
    rows = run.ask("breakdown").join(overlap, on=["rank", "device_id"])
    if not sum_column(rows, "exposed_comm_ns"):
        return
    if not sum_column(rows, "compute_ns"):
        yield abstain(
            RULE,
            "nothing computes in the recording: what communication could overlap is not known",
        )
        return
    parts = _leave_out_early(run, run.ask("comm_exposure"))
    cost = sum_column(parts, "transfer_ns")
    pct = 100 * cost / sum_windows(run)
    if pct < NOTABLE_PCT:
        return
    hidden = 100 * sum_column(rows, "comm_overlap_ns") / max(sum_column(rows, "comm_ns"), 1)
    summary = (
        f"{format_pct(pct)} of the window is exposed communication; "
        f"{format_pct(hidden)} of all communication overlaps compute."
    )
    apart = ", not counting waits for late ranks" if sum_column(parts, "waiting_ns") > 0 else ""
    evidence = [
        f"{format_ns(sum_column(rows, 'comm_ns'))} of communication on "
        f"{format_several(rows.height, 'GPU')}, {format_ns(cost)} of it exposed{apart}"
    ]
    # Where the ranks could be matched, waiting is known and is another rule's.
    matched = sum_column(parts, "waiting_ns") > 0
    late = [] if matched else find_late_ranks(rows)
    fix = advise_overlap(run)
    cause = "no compute overlaps the transfers"
    rate, shared, short = find_best_rate(run), measure_shared_stream(run), describe_many_short(run)
    evidence += [line for line in (rate and rate.text, describe_peers_figure(run)) if line]
    if short:
        evidence.append(short)
        fix = advise_short(run)
    if shared >= SHARED_PCT:
        evidence.append(f"{format_pct(shared)} of it runs on streams that compute too")
        fix = f"{advise_stream(run)}, then {fix}"
        cause = "on one stream, communication and compute run one after the other"
    if rate and rate.left is not None:
        fix = (
            "find out which path the data takes (NCCL_DEBUG=INFO names it: P2P, SHM or NET; "
            f"nvidia-smi topo -m shows the links); then {fix}"
        )
        cause = "the transfers are far slower than the links between these GPUs"
    if not matched and (waiting := describe_waiting(run)):
        evidence.append(waiting)
        fix = (
            "open the recordings of all ranks together: most of this may be waiting for late "
            f"ranks, which must be made faster first; for the transfers, {fix}"
        )
        cause = "this rank arrives before others, or the transfers are slow: one rank cannot tell"
    longest = find_longest_collective(run)
    if longest:
        summary += f" One {longest.name} takes {format_pct(longest.pct)} of the window by itself."
        evidence.insert(1, longest.describe())
        fix = longest.advise(run)
        cause = (
            f"one {longest.name} waits for a GPU that begins it later"
            if longest.waits_ns
            else f"one {longest.name} sends far more than the others, or is far slower"
        )
    if late:
        others = rows.filter(~pl.col("rank").is_in(late))
        own = rows.filter(pl.col("rank").is_in(late))
        said, more = _describe_late(late, own, others)
        summary, evidence = summary + said, evidence + more
        fix = f"make {name_ranks(late)} faster first: {_explain(own, others, len(late))}"
        cause = "some ranks arrive late, and the others wait in the collective"
    if not run.rows("collectives"):
        evidence.append("sizes and groups of the collectives were not recorded")
    early = list_early_reductions(run).select("device_op_id")
    comm = list_communication(run).filter(pl.col("part") == "transfer")
    comm = comm.join(early, on="device_op_id", how="anti", maintain_order="left")
    left = _list_left(run, comm, _share_left(rate))
    yield make_finding(
        run,
        RULE,
        summary,
        Loss(
            cost_ns=cost,
            bound_ns=find_largest(parts, "transfer_ns"),
            change=lambda nodes: scale_ops(nodes, left),
            # Hidden, it still takes its time: overlap cannot beat the longer of the two.
            floor_ns=round(_measure_transfer(comm) * _share_left(rate)),
        ),
        Evidence(
            evidence,
            rows=_list_longest(comm),
            where={"late_ranks": late, "ranks": rows.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix=fix,
            verify="sightline stats overlap AFTER: exposed_comm_ns "
            f"(now {format_ns(find_largest(rows, 'exposed_comm_ns'))} at most)",
            cause=cause,
            sources=("TraceLens agent: exposed communication above 5 %",),
        ),
        confidence="medium",
    )


def _leave_out_early(run: Run, parts: pl.DataFrame) -> pl.DataFrame:
    """The parts without what is reduced again: reduced-each-micro-step speaks for that."""
    early = measure_early(run)
    if early.is_empty():
        return parts
    return (
        parts.join(early, on=["rank", "device_id"], how="left", maintain_order="left")
        .with_columns((pl.col("transfer_ns") - pl.col("ns").fill_null(0)).clip(0))
        .drop("ns")
    )


def _list_left(run: Run, comm: pl.DataFrame, share: float) -> pl.DataFrame:
    """What is left of each transfer that is hidden as far as it can be: `ref_id` and `factor`.

    `share` is what is left of each at the links' own rate.
    """
    by = ["rank", "device_id"]
    sums = comm.filter(name_kind(pl.col("op")).is_in(_REDUCTIONS)).select(
        *by, "start_ns", "device_op_id", "size"
    )
    compute = list_class(run, COMPUTE, [*by, "start_ns"])
    # A row: what is sent one after the other, with no kernel that begins between.
    rows = pl.concat([sums, compute], how="diagonal").sort(*by, "start_ns")
    row = pl.col("device_op_id").is_null().cum_sum().over(by)
    last = (
        rows.with_columns(row=row)
        .drop_nulls("device_op_id")
        .filter(pl.len().over(*by, "row") > 1)
        .unique([*by, "row"], keep="last", maintain_order=True)
        .select("device_op_id", left=share * (BUCKET_BYTES / pl.col("size").clip(1)).clip(0, 1))
    )
    return comm.join(last, on="device_op_id", how="left").select(
        ref_id="device_op_id", factor=pl.col("left").fill_null(0.0)
    )


def _share_left(rate: Rate | None) -> float:
    """How much of the transfers' time stays: all of it, or what it is at the links' own rate."""
    return 1.0 if rate is None or rate.left is None else rate.left


def _measure_transfer(comm: pl.DataFrame) -> int:
    """How long the transfers take on the device that has most of them, waiting left out."""
    by = ["rank", "device_id"]
    like = [*by, "name", "op", "group", "size"]
    length = pl.col("end_ns") - pl.col("start_ns")
    # A send and a receive that no rank's records match wait for their peer in the kernel: the
    # fastest of like ones waited least.
    waits = pl.col("meeting").is_null() & pl.col("name").str.contains(SEND_RECV)
    own = comm.select(
        *by,
        start_ns=pl.when(waits)
        .then(pl.col("end_ns") - length.min().over(like))
        .otherwise(pl.max_horizontal("start_ns", "last")),
        end_ns="end_ns",
    )
    return find_largest(measure_cover(own, by), "covered_ns")


def _describe_late(
    late: list[int], own: pl.DataFrame, others: pl.DataFrame
) -> tuple[str, list[str]]:
    """What is said of late ranks, and the figures behind it."""
    low, high = _find_range(own, "exposed_comm_pct"), _find_range(others, "exposed_comm_pct")
    said = (
        f" {_ranks(late)} least time in communication ({low}, the others {high}): "
        + ("it arrives" if len(late) == 1 else "they arrive")
        + " last, and the others wait."
    )
    return said, [
        f"{part}: {_find_range(own, f'{part}_pct')} there, "
        f"{_find_range(others, f'{part}_pct')} elsewhere"
        for part in ("compute", "idle")
    ]


def _list_longest(comm: pl.DataFrame) -> list[dict[str, object]]:
    """The longest communication kernels, to look up."""
    return (
        comm.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
        .sort("ns", "device_op_id", descending=[True, False])
        .head(MAX_ROWS)
        .select("device_op_id", "rank", "device_id", "stream_id", "start_ns", "end_ns", "name")
        .to_dicts()
    )


def find_late_ranks(rows: pl.DataFrame) -> list[int]:
    """Ranks with clearly less communication: below the widest gap in the lower half, if wide."""
    shares = (
        rows.group_by("rank").agg(pct=pl.col("exposed_comm_pct").mean()).sort("pct", "rank").rows()
    )
    if len(shares) < 2:
        return []
    half = max(1, len(shares) // 2)
    jump, at = max((shares[i][1] - shares[i - 1][1], i) for i in range(1, half + 1))
    return sorted(rank for rank, _ in shares[:at]) if jump > LATE_POINTS else []


def _explain(own: pl.DataFrame, others: pl.DataFrame, count: int) -> str:
    """What the late ranks do with the time in which the others wait."""
    more_idle = average_column(own, "idle_ns") - average_column(others, "idle_ns")
    more_compute = average_column(own, "compute_ns") - average_column(others, "compute_ns")
    if more_idle <= more_compute:
        return "more compute runs there, so balance the work"
    if count == 1:
        return "its GPU idles more, so the host is slow there, not the kernels"
    return "their GPUs idle more, so the host is slow there, not the kernels"


def _find_range(rows: pl.DataFrame, column: str) -> str:
    first, last = map(format_pct, find_span(rows, column))
    return first if first == last else f"{first} to {last}"


def _ranks(ranks: list[int]) -> str:
    names = name_ranks(ranks).capitalize()
    return f"{names} spends" if len(ranks) == 1 else f"{names} spend"
