"""Room for more warps on an SM: what takes it, and what gives it back."""

from __future__ import annotations

from collections.abc import Iterable

_FIX = {
    "registers": "lower the registers per thread (__launch_bounds__, smaller tiles)",
    "shared_mem": "use less shared memory per block, or more threads for the same",
    "warps": "choose a block size that divides the warps of an SM",
    "blocks": "use larger blocks",
    "barriers": "use fewer barriers per block",
}


def advise_room(limiters: Iterable[str]) -> str:
    """What lets an SM hold more warps, by what is used up first (`Occupancy.limiters`)."""
    return "; ".join(_FIX[name] for name in limiters)
