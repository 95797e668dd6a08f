"""Which part of the L1's work a kind of access is.

The L1 serves global, local and shared memory through one data stage, a wavefront a cycle (Nsight
Compute, Kernel Profiling Guide, "Memory Chart").
"""

from __future__ import annotations

from sightline.diagnosis.kernel_bounds import Case

_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts{}.sum{}"
_PCT = ".pct_of_peak_sustained_elapsed"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
SPACES, OPS = ("global", "local"), ("ld", "st")
METRICS = (
    *(_WAVEFRONTS.format(part, end) for part in ("", "_mem_shared") for end in ("", _PCT)),
    *(_WAVEFRONTS.format(f"_mem_shared_op_{op}", "") for op in OPS),
    f"l1tex__data_pipe_lsu_wavefronts.avg{_PCT}",
    *(_SECTORS.format(space, op) for space in SPACES for op in (*OPS, "red")),
)


def count_sectors(case: Case, space: str, op: str) -> float:
    """Sectors of 32 bytes that accesses of this kind asked the L1 for; 0 where not measured."""
    return case.get(_SECTORS.format(space, op)) or 0.0


def find_part_of_l1(case: Case, space: str, op: str | None = None) -> float:
    """The part of the L1's wavefronts that is of shared memory, or of global and local, 0 to 1.

    With `op`, the part of this kind of access to global or local memory, by its sectors. Where
    nobody counted, all of it.
    """
    whole, shared = _count_wavefronts(case, ""), _count_wavefronts(case, "_mem_shared")
    of_shared = None if not whole or shared is None else min(1.0, shared / whole)
    if space == "shared":
        return 1.0 if of_shared is None else of_shared
    part = 1.0 if of_shared is None else 1 - of_shared
    if op is None:
        return part
    asked = sum(count_sectors(case, s, o) for s in SPACES for o in (*OPS, "red"))
    return part * count_sectors(case, space, op) / asked if asked else part


def _count_wavefronts(case: Case, what: str) -> float | None:
    """Wavefronts, or the cycles that they take, % of all: one unit for both parts of a ratio."""
    pct = case.get(
        _WAVEFRONTS.format(what, _PCT), f"l1tex__data_pipe_lsu_wavefronts{what}.avg{_PCT}"
    )
    return case.get(_WAVEFRONTS.format(what, "")) if pct is None else pct
