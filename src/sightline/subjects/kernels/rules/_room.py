"""Kernels of whose warps a multiprocessor holds few: what takes the room, and what gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_note, format_pct, format_several
from sightline.roofline.occupancy import Occupancy
from sightline.subjects.kernels.launch_fill import compute_room
from sightline.subjects.kernels.rules._launches import list_filled, pick_longest

# Below half of what is said to be enough ("Once an occupancy of 50 percent has been reached,
# additional increases in occupancy do not translate into improved performance", CUDA C Best
# Practices Guide, "Occupancy"), few kernels have other work to do while they wait.
_LITTLE_PCT = 25.0


@dataclass(frozen=True)
class LittleRoom:
    """What takes the room, in words, and what to do about it."""

    text: str
    fix: str


def find_few_blocks(run: Run, name: str) -> LittleRoom | None:
    """How many multiprocessors a kernel of the program's own leaves without a block, where it does.

    Where its gain is sure, few-blocks speaks first; else this is what to try first.
    """
    launches = list_filled(run).filter("own", pl.col("name") == name)
    if launches.is_empty():
        return None
    row = pick_longest(launches)
    empty = row["sm_count"] - row["blocks"]
    if empty <= 0:
        return None
    return LittleRoom(
        format_note(
            empty, f"of {format_several(row['sm_count'], 'multiprocessor')} have no block of it"
        ),
        "divide its work into more blocks than there are multiprocessors; then ",
    )


def find_little_room(run: Run, name: str) -> LittleRoom | None:
    """What keeps a multiprocessor from holding more of a kernel's warps, where it holds few.

    Of the program's own kernels: libraries' products run best with few warps and many registers.
    """
    launches = list_filled(run).filter("own", pl.col("name") == name)
    if launches.is_empty():
        return None
    row = pick_longest(launches)
    room = compute_room(run, row)
    if room is None or room.pct > _LITTLE_PCT or not room.active_blocks:
        return None
    needs = _name_need(row, room)
    if needs is None or row["blocks"] <= row["sm_count"] * room.active_blocks // 2:
        return None  # a grid that leaves room is another problem
    return LittleRoom(
        f"{needs} leave room for {format_several(room.active_blocks, 'block')} of "
        f"{format_several(room.warps_per_block, 'warp')} on a multiprocessor: "
        f"{format_pct(room.pct)} of its warps",
        f"{_advise(row, room)}; then ",
    )


def _name_need(row: Mapping[str, Any], room: Occupancy) -> str | None:
    """'188 registers a thread', of the resource that is used up first."""
    if "registers" in room.limiters:
        return f"{format_several(row['registers_per_thread'], 'register')} a thread"
    if "shared_mem" in room.limiters:
        shared = (row["static_shared_bytes"] or 0) + (row["dynamic_shared_bytes"] or 0)
        return f"{format_bytes(shared)} of shared memory a block"
    return None


def _advise(row: Mapping[str, Any], room: Occupancy) -> str:
    if "registers" in room.limiters:
        smaller = "smaller blocks, " if row["threads"] > row["warp_size"] else ""
        return (
            f"give it room for more warps ({smaller}fewer registers: __launch_bounds__, less state "
            "in each thread)"
        )
    return "give it room for more warps (less shared memory in each block, or larger blocks)"
