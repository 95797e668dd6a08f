"""Which collectives a hung job waits in, who is missing there, and who of those is to blame.

From flight records. A rank is missing in a collective that others wait in if it has no record of
it and none of a later one in the group: records of what has ended may be gone. A rank that waits
itself for another missing one, in whatever group, is late because of that one: to blame are those
who wait for nobody, or for each other only.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.collectives import name_kind

_PEERS = re.compile(r"(\d+)\s*(->|<-)\s*(\d+)")


def list_stuck(run: Run) -> pl.DataFrame:
    """One row per collective that some rank waits in without all the others.

    group, members, op, sequence, `waiting`, `missing` (lists of ranks), `blamed` (those of the
    missing who wait for nobody), place, sizes, dtype, since_ns: when the first one asked.
    """
    return run.once(_list_stuck)


def _list_stuck(run: Run) -> pl.DataFrame:
    records = _add_members(run.table("flight_records"))
    collectives = records.filter(~pl.col("is_p2p"))
    newest = collectives.group_by("group", "members", "rank").agg(pl.col("sequence").max())
    reached: dict[tuple[str, str], dict[int, int]] = {}
    for group, members, rank, sequence in newest.drop_nulls("sequence").rows():
        reached.setdefault((group, members), {})[rank] = sequence
    is_open = (pl.col("state") != "completed") & ~pl.col("retired").fill_null(value=False)
    key = ["group", "members", "sequence"]
    stuck = (
        collectives.filter(is_open)
        .sort("created_ns", "rank")
        .group_by(key, maintain_order=True)
        .agg(
            pl.col(
                "group_description", "group_ranks", "op", "place", "input_sizes", "dtype"
            ).first(),
            waiting=pl.col("rank").sort(),
            since_ns=pl.col("created_ns").min(),
        )
    )
    rows = []
    for row in stuck.iter_rows(named=True):
        there = reached.get((row["group"], row["members"]), {})
        missing = [
            rank
            for rank in row["group_ranks"] or ()
            if there.get(rank, -1) < (row["sequence"] or 0)
        ]
        if missing:
            rows.append({**row, "missing": missing})
    blamed = _find_blamed(rows, records)
    lists = dict.fromkeys(("waiting", "missing", "blamed"), pl.List(pl.Int64))
    schema = {**stuck.schema, **lists}
    return pl.DataFrame(
        [{**row, "blamed": [r for r in row["missing"] if r in blamed]} for row in rows],
        schema=schema,
        orient="row",
    ).sort("since_ns", *key)


def _add_members(records: pl.DataFrame) -> pl.DataFrame:
    """The records with `members`: names of groups are not unique, names and ranks together are."""
    return records.with_columns(
        members=pl.col("group_ranks").cast(pl.List(pl.String)).list.join(",").fill_null(""),
        is_p2p=pl.col("is_p2p").fill_null(value=False),
    )


def _find_blamed(stuck: list[dict[str, Any]], records: pl.DataFrame) -> set[int]:
    """The missing ranks from which waiting leads back to themselves only, or nowhere."""
    waits: dict[int, set[int]] = {}
    missed = {rank for row in stuck for rank in row["missing"]}
    for row in stuck:
        for rank in missed.intersection(row["waiting"]):
            waits.setdefault(rank, set()).update(row["missing"])
    for rank, peer in _list_peers(records):
        waits.setdefault(rank, set()).add(peer)
    reached = {rank: _follow(rank, waits) for rank in missed}
    return {
        rank
        for rank, others in reached.items()
        if all(rank in (reached.get(other) or _follow(other, waits)) for other in others - {rank})
    }


def _follow(rank: int, waits: dict[int, set[int]]) -> set[int]:
    """All that a rank waits for, directly or by way of others."""
    seen: set[int] = set()
    open_ = [rank]
    while open_:
        for other in waits.get(open_.pop(), ()):
            if other not in seen:
                seen.add(other)
                open_.append(other)
    return seen


def _list_peers(records: pl.DataFrame) -> list[tuple[int, int]]:
    """For each receive that is open: who waits, and for whose send ("nccl:recv 0<-3")."""
    is_open = (pl.col("state") != "completed") & ~pl.col("retired").fill_null(value=False)
    found = []
    asked = records.filter("is_p2p", is_open, pl.col("op").str.contains("recv"))
    for rank, op, members in asked.select("rank", "op", "group_ranks").rows():
        peers = _PEERS.search(op)
        if peers is None or not members:
            continue
        source = int(peers[1] if peers[2] == "->" else peers[3])
        if source < len(members) and members[source] != rank:
            found.append((rank, members[source]))
    return found


def list_mismatches(run: Run) -> pl.DataFrame:
    """One row per collective in which the ranks asked for different things.

    group, members, sequence, and as lists of equal length `ranks`, `asked`, `places`: what each
    rank asked for, the usual first.
    """
    records = _add_members(run.table("flight_records")).filter(
        ~pl.col("is_p2p"), pl.col("sequence").is_not_null(), pl.col("op") != "nccl:coalesced"
    )
    kind = name_kind(pl.col("op"))
    # Of an all-to-all, a gather or a scatter each rank may have its own sizes.
    same_size = kind.is_in(["all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter"])
    records = records.with_columns(
        asked=pl.format(
            "{} of {} {}",
            "op",
            pl.col("input_sizes").fill_null("?"),
            pl.col("dtype").fill_null("?"),
        ),
        what=pl.format(
            "{}{}",
            "op",
            pl.when(same_size)
            .then(
                pl.format(
                    "{}{}", pl.col("input_sizes").fill_null(""), pl.col("dtype").fill_null("")
                )
            )
            .otherwise(pl.lit("")),
        ),
    )
    key = ["group", "members", "sequence"]
    return (
        records.with_columns(alike=pl.len().over(*key, "what"))
        .filter(pl.col("what").n_unique().over(key) > 1)
        .sort("alike", "rank", descending=[True, False])
        .group_by(key, maintain_order=True)
        .agg(
            pl.col("group_description", "group_ranks").first(),
            ranks=pl.col("rank"),
            asked=pl.col("asked"),
            kinds=pl.col("what"),
            places=pl.col("place"),
        )
        .sort(key)
    )
