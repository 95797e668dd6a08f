"""Jobs of many ranks of which one stops: what the others still ask for, and wait in.

Tensor parallel groups of eight ranks, data parallel groups of every eighth; each step two
all-reduces of the first and one of the second. A rank waits in a collective until all its members
have asked for it, so those that share a group with one that waits come to wait as well.
"""

from __future__ import annotations

import pickle
from collections import deque
from pathlib import Path

from support.flight import EPOCH, entry

GROUP = 8
# The kind of group, and the line of the program that asks for it.
STEP = (("tp", 21), ("tp", 22), ("dp", 33))
KEPT = 12  # records in a recorder's ring


def list_members(kind: str, rank: int, ranks: int) -> range:
    """The ranks of the group that a rank is in."""
    if kind == "tp":
        first = rank // GROUP * GROUP
        return range(first, min(first + GROUP, ranks))
    return range(rank % GROUP, ranks, GROUP)


def play_hang(ranks: int, stopped: int, after: int) -> list[int]:
    """How many collectives each rank has asked for, when `stopped` asks for `after` only."""
    asked, arrived = [0] * ranks, {}
    ready = deque(range(ranks))
    while ready:
        rank = ready.popleft()
        if rank == stopped and asked[rank] == after:
            continue
        at = asked[rank]
        asked[rank] += 1
        members = list_members(STEP[at % len(STEP)][0], rank, ranks)
        here = arrived.setdefault((at, members.start, members.step), [])
        here.append(rank)
        if len(here) == len(members):
            ready += here
    return asked


def find_line(ranks: int, stopped: int, after: int) -> int:
    """The line of the first collective that the others wait in for the rank that stopped."""
    while True:
        kind, line = STEP[after % len(STEP)]
        if len(list_members(kind, stopped, ranks)) > 1:
            return line
        after += 1


def write_hang(folder: Path, ranks: int, stopped: int, after: int) -> list[str]:
    """Flight recorder dumps of all ranks."""
    paths = []
    for rank, asked in enumerate(play_hang(ranks, stopped, after)):
        every = {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}
        config, entries, count = {"0": every}, [], {"tp": 0, "dp": 0}
        for at in range(asked):
            kind, line = STEP[at % len(STEP)]
            members = list_members(kind, rank, ranks)
            name = f"{kind}{members.start}"
            config[name] = {"name": name, "desc": kind, "ranks": str(list(members))}
            count[kind] += 1
            # Only the last may be open; the rank that stopped has done all that it asked for.
            done = at < asked - 1 or rank == stopped
            told = {"record_id": at, "process_group": (name, kind), "line": line, "done": done}
            entries.append(entry(count[kind], time_created_ns=EPOCH + 1_000 * at + rank, **told))
        document = {"version": "2.9", "pg_config": config, "entries": entries[-KEPT:]}
        path = folder / f"dump_{rank}"
        path.write_bytes(pickle.dumps(document, protocol=2))
        paths.append(str(path))
    return paths
