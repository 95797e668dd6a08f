"""Several recordings to one run: whose rank each is, and ids that are unique."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sightline.core.model.declare import Quality
from sightline.core.model.run import Run
from sightline.core.model.store import Member, Part
from sightline.core.model.tables import load_table
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.timeline.clocks import Fit

# 'rank7', 'rank-7', 'rank_7' or 'rank.7', not as the end of another word.
RANK_IN_NAME = re.compile(r"(?:^|[^a-zA-Z])rank[_\-.]?(\d{1,6})(?!\d)", re.IGNORECASE)


def read_rank_of_path(path: Path, given: str, facts: dict[str, Any]) -> dict[str, Any]:
    """What the path says, which the cache cannot know: equal files can lie under many names."""
    if facts.get("own_rank") is not None:
        return {"path": given, "rank_source": "recording"}
    # The last match is nearest to the file's own name: a folder's name counts less.
    named = RANK_IN_NAME.findall("/".join(path.absolute().parts[-2:]))
    if not named and (facts.get("own") or {}).get("rank_ends_name"):
        named = re.findall(r"(\d{1,6})(?:\.\w+)?$", path.name)
    if named:
        return {"path": given, "rank_source": "file name", "own_rank": int(named[-1])}
    return {"path": given, "rank_source": "order"}


Members = Sequence[Member]
_BY_ORDER = ("order", "host", None)  # a rank from there states nothing


def compose_run(members: Members, fit: Fit | None = None) -> Run:
    """One run from its recordings.

    Ranks are settled, ids unique, and clocks that are apart put on one: by `fit` where it is known.
    """
    if not members:
        raise InputError("there is nothing to read")
    # Recordings of one process share its rank.
    groups = [m.facts.get("process") or n for n, m in enumerate(members)]
    # A trace of the whole system is no rank of the job: it has that of a process on its host.
    of_host = find_processes(members)
    groups = [groups[of_host.get(n, n)] for n in range(len(members))]
    first = {groups[n]: n for n in reversed(range(len(members))) if n not in of_host}
    order = sorted(first.values())
    settled, said = settle_ranks([_read_claim(members[n].facts) for n in order])
    of_group = {
        groups[n]: (rank, notes) for n, rank, notes in zip(order, settled, said, strict=True)
    }
    parts = []
    for number, (store, index, facts) in enumerate(members):
        rank, notes = of_group[groups[number]]
        notes = notes if first[groups[number]] == number else []
        if notes and facts.get("of_host"):
            notes = [_say_host(rank)]
        own = {**facts, "quality": [*facts.get("quality", ()), *map(vars, notes)]}
        if number in of_host:
            own["rank_source"] = "host"
        elif of_group[groups[number]][1]:
            own["rank_source"] = "order"
        parts.append(Part(store, index, facts["rank"], rank, number, own))
    run = Run(parts)
    if len(parts) < 2:
        return run
    # NumPy, which fits clocks, takes a tenth of a second to load: for several recordings only.
    from sightline.opening.clocks import align_clocks, move_clocks
    from sightline.opening.histories import join_histories

    return join_histories(align_clocks(run) if fit is None else move_clocks(run, fit))


def _say_host(rank: int) -> Quality:
    text = (
        f"the trace of a host's kernel belongs to no recording of a process: shown as rank {rank}"
    )
    remedy = "Open it together with its host's, or put rank<N> in the folder's name."
    return Quality("rank_by_order", "info", text, None, remedy)


def find_processes(members: Members) -> dict[int, int]:
    """For each trace of a whole system: the number of a recording of a process on its host.

    That is the one of the rank which the trace states, else the one that has most of the system's
    threads, else the next one in order. A trace that states a rank which no other has, or that
    stands alone, has none.
    """
    every = [member.facts for member in members]
    systems = [n for n, f in enumerate(every) if f.get("of_host") and not f.get("process")]
    others = [n for n, f in enumerate(every) if not f.get("of_host")]
    claims = {}
    for number in reversed(others):
        claims[_read_claim(every[number])] = number
    found: dict[int, int] = {}
    unclear = []
    for number in systems if others else ():
        facts = every[number]
        claim = _read_claim(facts)
        if claim is not None and claim in claims:
            found[number] = claims[claim]
        elif claim is None or facts.get("rank_source") in _BY_ORDER:
            unclear.append(number)
    several = len(others) > 1 and unclear
    threads = {n: _list_threads(members[n]) for n in others} if several else {}
    for number in unclear:
        known = _list_threads(members[number]) if several else set()
        free = set(others) - set(found.values())
        # Where the threads do not show, systems are of different hosts: no two have one process.
        found[number] = max(others, key=lambda n: (len(known & threads.get(n, known)), n in free))
    return found


def _list_threads(member: Member) -> set[int]:
    """The numbers of a recording's threads, which are unique on a host."""
    store, index, facts = member
    part = Part(store, index, facts["rank"], 0, 0, facts)
    threads = part.scan(load_table("threads"))
    if threads is None:
        return set()
    return set(threads.select(pl.col("tid").drop_nulls().unique()).collect().to_series())


def _read_claim(facts: dict[str, Any]) -> int | None:
    rank: int | None = facts["own_rank"] if "own_rank" in facts else facts["rank"]
    return rank


def settle_ranks(claimed: Sequence[int | None]) -> tuple[list[int], list[list[Quality]]]:
    """A rank for each recording: its own if it is the first to claim it, else the next free one."""
    taken = set()
    settled: list[int | None] = []
    for rank in claimed:
        free = rank is not None and rank >= 0 and rank not in taken
        settled.append(rank if free else None)
        if free:
            taken.add(rank)
    notes: list[list[Quality]] = [[] for _ in claimed]
    free_ranks = (n for n in range(len(claimed) * 2 + 1) if n not in taken)
    answer = []
    for number, (rank, wanted) in enumerate(zip(settled, claimed, strict=True)):
        if rank is None:
            rank = next(free_ranks)
            if len(claimed) > 1 or wanted is not None:
                text = (
                    f"the recording does not state its rank: taken as rank {rank} by order"
                    if wanted is None
                    else f"another recording is already rank {wanted}: taken as rank {rank}"
                )
                remedy = "Record with torch.distributed set up, or put rank<N> in the file name."
                notes[number].append(Quality("rank_by_order", "warning", text, None, remedy))
        answer.append(rank)
    return answer, notes
