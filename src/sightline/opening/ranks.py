"""Several recordings to one run: whose rank each is, and ids that are unique."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.model.declare import Quality
from sightline.model.run import Run
from sightline.model.store import Part

if TYPE_CHECKING:
    from sightline.timeline.clocks import Fit

# 'rank7', 'rank-7', 'rank_7' or 'rank.7', not as the end of another word.
_RANK_IN_NAME = re.compile(r"(?:^|[^a-zA-Z])rank[_\-.]?(\d{1,6})(?!\d)", re.IGNORECASE)


def read_rank_of_path(path: Path, given: str, facts: dict[str, Any]) -> dict[str, Any]:
    """What the path says, which the cache cannot know: equal files can lie under many names."""
    if facts.get("own_rank") is not None:
        return {"path": given, "rank_source": "recording"}
    # The last match is nearest to the file's own name: a folder's name counts less.
    named = _RANK_IN_NAME.findall("/".join(path.absolute().parts[-2:]))
    if not named and (facts.get("own") or {}).get("rank_ends_name"):
        named = re.findall(r"(\d{1,6})(?:\.\w+)?$", path.name)
    if named:
        return {"path": given, "rank_source": "file name", "own_rank": int(named[-1])}
    return {"path": given, "rank_source": "order"}


def compose_run(members: Sequence[tuple[Path, int, dict[str, Any]]], fit: Fit | None = None) -> Run:
    """One run from (store, number in it, facts) of each recording.

    Ranks are settled, ids unique, and clocks that are apart put on one: by `fit` where it is known.
    """
    if not members:
        raise InputError("there is nothing to read")
    # Recordings of one process share its rank.
    groups = [f.get("process") or n for n, (*_, f) in enumerate(members)]
    first = {group: number for number, group in reversed(list(enumerate(groups)))}
    order = sorted(first.values())
    claims = [members[n][2] for n in order]
    settled, said = settle_ranks([c["own_rank"] if "own_rank" in c else c["rank"] for c in claims])
    of_group = {
        groups[n]: (rank, notes) for n, rank, notes in zip(order, settled, said, strict=True)
    }
    parts = []
    for number, (store, index, facts) in enumerate(members):
        rank, notes = of_group[groups[number]]
        notes = notes if first[groups[number]] == number else []
        own = {**facts, "quality": [*facts.get("quality", ()), *map(vars, notes)]}
        if of_group[groups[number]][1]:
            own["rank_source"] = "order"
        parts.append(Part(store, index, facts["rank"], rank, number, own))
    run = Run(parts)
    if len(parts) < 2:
        return run
    # NumPy, which fits clocks, takes a tenth of a second to load: for several recordings only.
    from sightline.opening.clocks import align_clocks, move_clocks

    return align_clocks(run) if fit is None else move_clocks(run, fit)


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
