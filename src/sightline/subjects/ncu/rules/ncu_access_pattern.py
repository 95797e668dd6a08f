"""Loads or stores use only part of the sectors that they move.

Symptom
    An access moves 32-byte sectors and uses few bytes of each.

Why it hurts
    The rest of each sector takes bandwidth at every level that the access reaches.

Evidence
    Bytes used per sector of global and local loads and stores, and the hit rates that decide how
    far the accesses reach (`sightline stats memory_hierarchy`).

Threshold
    Fewer bytes per sector than the 32 that it has (Nsight Compute 2024.1, rule
    MemoryCacheAccessPattern); here from a fifth on, below which little is to be won. Estimate:
    (1 − bytes / 32) × share of the accesses that reach the level, local, weighed with the
    throughput of the level; the level where that is most counts.

Fix
    Let neighboring threads access neighboring addresses; pack structures; use shared memory to
    change the order.

False positives
    Tables that are read at random and fit the cache.

References
    CUDA C++ Best Practices Guide 12.9, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import DRAM, L1, L2, LIMIT_PCT, Case, Hit
from sightline.diagnosis.profiled import load_cases, make_findings

RULE = Rule("ncu-access-pattern", "Uncoalesced access: sectors partly used")
SECTOR = 32.0
UNUSED = 0.2
_BYTES = "smsp__sass_average_data_bytes_per_sector_mem_{}_op_{}.ratio"
_ACCESSES = {
    (space, op): f"{space} {word}"
    for space in ("global", "local")
    for op, word in (("ld", "loads"), ("st", "stores"))
}
_HIT_L1 = "l1tex__t_sector_hit_rate.pct"
_HIT_L2 = "lts__t_sector_hit_rate.pct"
_LEVELS = (L1, L2, DRAM)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name and kind of access."""
    looked = [_BYTES.format(space, op) for space, op in _ACCESSES]
    if not load_cases(run, looked, "--section MemoryWorkloadAnalysis_Tables"):
        return
    every = load_cases(run, (*looked, _HIT_L1, _HIT_L2), "")
    hits = [
        hit
        for case in every
        for (space, op), word in _ACCESSES.items()
        if (hit := _hit(case, case.get(_BYTES.format(space, op)), word)) is not None
    ]
    yield from make_findings(
        RULE,
        hits,
        every,
        lambda h: f"{h.evidence}.",
        "let neighboring threads access neighboring addresses, pack structures, or reorder "
        "through shared memory",
        "sightline stats memory_hierarchy AFTER: fewer sectors per request",
    )


def _hit(case: Case, used: float | None, word: str) -> Hit | None:
    # No accesses of a kind read as 0 bytes per sector.
    if not used or 1 - used / SECTOR < UNUSED:
        return None
    unused, reach, felt = 100 * (1 - used / SECTOR), 1.0, {}
    misses = (1.0, _miss(case, _HIT_L1), _miss(case, _HIT_L2))
    for level, miss in zip(_LEVELS, misses, strict=True):
        reach *= miss
        felt[level] = unused * reach
    busy = {level: pct for level in felt if (pct := case.use(level)) is not None}
    if not busy:
        return Hit(case, unused, 100.0, f"{format_pct(unused)} of {word}", word)
    worst = max(busy, key=lambda level: felt[level] * busy[level])
    return Hit(
        case,
        felt[worst],
        busy[worst],
        f"{word} use {used:.1f} of the 32 bytes of a sector, most felt in {worst}",
        word,
        case.find_next_limit(felt),
        relieves_limit=busy[worst] >= LIMIT_PCT,
    )


def _miss(case: Case, metric: str) -> float:
    rate = case.get(metric)
    return 1.0 if rate is None else max(0.0, 1 - rate / 100)
