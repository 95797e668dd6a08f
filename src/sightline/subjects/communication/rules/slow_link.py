"""One link between ranks is far slower than the others of its kind, all the time.

Symptom
    Messages of one pair (or group) of ranks take several times as long as equal messages of the
    other pairs, after both sides have arrived.

Why it hurts
    A pipeline is as fast as its slowest stage, and a job as its slowest group: all others wait for
    what crosses that link.

Evidence
    Transfers whose kernels are matched between ranks: from the last rank's start to the first end.
    Each link's median is compared with that of the other links with messages of the same kind and
    size. The gain is a replay in which its transfers take what they take elsewhere.

Threshold
    Three links or more with at least five messages each, so that one can be told from the rest;
    slow is twice the median of the other links (ours, as for collectives below their bandwidth).
    What it takes longer, or the gain, is over 5 % of the window (TraceLens agent, 2026-08: exposed
    communication).

Fix
    Look at that link: nvidia-smi topo -m and nvidia-smi nvlink -s, ibstat for a port at a lower
    rate, NCCL_DEBUG=INFO for the transport that NCCL chose (SHM or NET where the others say P2P);
    place the two ranks where the link is whole, or cut the pipeline elsewhere.

False positives
    Links that are meant to differ, as between machines and inside one: then fewer bytes should
    cross it. Messages of unequal size whose sizes were not recorded.

References
    Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (2025);
    NVIDIA/nccl-tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_several
from sightline.diagnosis.build import (
    MAX_ROWS,
    Advice,
    Evidence,
    Loss,
    keep_notable,
    make_finding,
)
from sightline.replay.replay import scale_ops
from sightline.subjects.communication.rules._late import name_ranks
from sightline.timeline.communication import list_communication

RULE = Rule("slow-link", "A slow link between ranks")
_LEAST_LINKS, _LEAST_MESSAGES, _TIMES = 3, 5, 2.0
_DEVICE = ["rank", "device_id"]
_KIND = ["op", "members", "size"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("collectives"):
        return
    slow = find_slow_transfers(run)
    if slow.is_empty():
        return
    lost = slow.with_columns(lost=((pl.col("end_ns") - pl.col("last")) * (1 - pl.col("factor"))))
    each = lost.group_by(_DEVICE).agg(pl.col("lost").sum().round().cast(pl.Int64))
    links = _describe_links(slow)
    worst = links.row(0, named=True)
    factors = slow.select(ref_id="device_op_id", factor="factor")
    found = make_finding(
        run,
        RULE,
        f"The link between {name_ranks(worst['link'])} is {worst['times']:.1f} times slower than "
        f"the others: the same message takes {format_ns(round(worst['ns']))}, and "
        f"{format_ns(round(worst['elsewhere']))} elsewhere.",
        Loss(
            sum_column(each, "lost"),
            find_largest(each, "lost"),
            lambda nodes: scale_ops(nodes, factors),
        ),
        Evidence(
            [
                f"{name_ranks(row['link'])}: {format_several(row['messages'], 'message')}"
                f"{_of_size(row['size'])}, median {format_ns(round(row['ns']))}; "
                f"{row['links']} other links: {format_ns(round(row['elsewhere']))}"
                for row in links.head(3).iter_rows(named=True)
            ],
            rows=slow.head(MAX_ROWS)
            .select("device_op_id", *_DEVICE, "start_ns", "end_ns", "name")
            .to_dicts(),
            where={"ranks": worst["link"], "link": worst["link"]},
        ),
        Advice(
            fix=f"look at the link between {name_ranks(worst['link'])} (nvidia-smi topo -m, "
            "nvidia-smi nvlink -s, ibstat; NCCL_DEBUG=INFO names the transport), or place these "
            "ranks on other links",
            verify="sightline ranks AFTER: no slow link",
            cause="the recording shows which link is slow, not what slows it",
            sources=("NVIDIA/nccl-tests: bus bandwidth", "Lin et al. (2025)"),
        ),
        confidence="high" if worst["size"] is not None else "medium",
    )
    yield from keep_notable(run, found)


def find_slow_transfers(run: Run) -> pl.DataFrame:
    """The kernels of slow links: columns of `list_communication`, with `link`, `factor` and more.

    `factor` is what of a transfer's length remains at the median of the other links; `elsewhere`
    that median (ns), `mine` the link's own, `links` the number of the others.
    """
    comm = list_communication(run).drop_nulls("meeting")
    comm = comm.with_columns(
        op=pl.when(pl.col("part") == "pipeline").then(pl.lit("send and receive")).otherwise("op"),
        link=pl.col("rank").unique().sort().over("meeting", mapping_strategy="join"),
    ).with_columns(members=pl.col("link").list.len())
    moves = comm.filter(pl.col("members") > 1)
    messages = moves.group_by("meeting", maintain_order=True).agg(
        pl.col(*_KIND, "link").first(), ns=(pl.col("end_ns") - pl.col("last")).min()
    )
    links = (
        messages.filter(pl.col("ns") > 0)
        .group_by(*_KIND, "link", maintain_order=True)
        .agg(mine=pl.col("ns").median(), messages=pl.len())
        .filter(pl.col("messages") >= _LEAST_MESSAGES)
        .filter(pl.len().over(_KIND) >= _LEAST_LINKS)
    )
    if links.is_empty():
        return moves.clear().with_columns(
            factor=pl.lit(0.0), mine=pl.lit(0.0), elsewhere=pl.lit(0.0), links=pl.lit(0)
        )
    slow = links.with_columns(
        elsewhere=pl.concat([_take_others(group) for group in _split(links)]),
        links=pl.len().over(_KIND) - 1,
    ).filter(pl.col("mine") > _TIMES * pl.col("elsewhere"))
    joined = moves.join(
        slow.drop("messages"), on=[*_KIND, "link"], nulls_equal=True, maintain_order="left"
    )
    took = pl.col("end_ns") - pl.col("last")
    return joined.with_columns(
        # What the kernel waited for the other side stays as it is.
        factor=pl.min_horizontal(1.0, pl.col("elsewhere") / took)
    ).filter(pl.col("factor") < 1)


def _split(links: pl.DataFrame) -> list[pl.DataFrame]:
    return links.partition_by(_KIND, maintain_order=True)


def _take_others(links: pl.DataFrame) -> pl.Series:
    """For each link of one kind the median of the others' medians."""
    own = links.get_column("mine").to_list()
    others = [pl.Series(own[:at] + own[at + 1 :]).median() for at in range(len(own))]
    return pl.Series("elsewhere", others, pl.Float64)


def _describe_links(slow: pl.DataFrame) -> pl.DataFrame:
    """A row for each slow link, the one that takes most of all first."""
    return (
        slow.group_by(*_KIND, "link", maintain_order=True)
        .agg(
            pl.col("elsewhere", "links").first(),
            ns=pl.col("mine").first(),
            messages=pl.col("meeting").n_unique(),
        )
        .with_columns(times=pl.col("ns") / pl.col("elsewhere"))
        .sort(pl.col("messages") * (pl.col("ns") - pl.col("elsewhere")), descending=True)
    )


def _of_size(size: int | None) -> str:
    return f" of {format_bytes(size)}" if size else ""
