"""Loads or stores use only part of the sectors that they move.

Symptom
    An access moves 32-byte sectors and uses few bytes of each.

Why it hurts
    The rest of each sector takes bandwidth at every level that the access reaches.

Evidence
    Bytes used per sector of global loads and stores, and how many of all sectors they are
    (`sightline stats memory_hierarchy`).

Threshold
    Fewer bytes per sector than the 32 that it has (Nsight Compute 2024.1, rule
    MemoryCacheAccessPattern); here from a fifth on, below which little is to be won. Where the
    sectors beyond the ideal were counted, ncu-uncoalesced-global says so instead; of local memory,
    ncu-local-memory. Estimate: (1 − bytes / 32) of these accesses' part of what the L1 moves, and
    of what passes it and the L2; a unit that binds the kernel leaves what the next one needs.

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

from sightline.core.model.declare import Rule
from sightline.diagnosis.kernel_bounds import DRAM, L1, L2, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.subjects.ncu._l1 import METRICS as L1_METRICS
from sightline.subjects.ncu._l1 import OPS, SPACES, count_sectors, find_part_of_l1

RULE = Rule(
    "ncu-access-pattern",
    "Uncoalesced access: sectors partly used",
    explains=(*WAITS, "ncu-memory-limit"),
)
SECTOR = 32.0
UNUSED = 0.2
LEAST_PCT = 1.0  # ours: less than that is no pattern but a few accesses at the end of a kernel
_BYTES = "smsp__sass_average_data_bytes_per_sector_mem_{}_op_{}.ratio"
_OPS = {"ld": "global loads", "st": "global stores"}
_HITS = ("l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct")
_COUNTED = "memory_l2_theoretical_sectors_global_ideal"


def _hit(case: Case, op: str) -> Hit | None:
    used = case.get(_BYTES.format("global", op))
    # No accesses of a kind read as 0 bytes per sector.
    if not used or 1 - used / SECTOR < UNUSED or case.get(_COUNTED) is not None:
        return None
    unused = 100 * (1 - used / SECTOR)
    asked = sum(count_sectors(case, s, o) for s in SPACES for o in OPS)
    share = count_sectors(case, "global", op) / asked if asked else 1.0
    felt = {L1: unused * find_part_of_l1(case, "global", op)}
    reach = unused * share
    for unit, rate in zip((L2, DRAM), _HITS, strict=True):
        hits = case.get(rate)
        reach *= 1.0 if hits is None else max(0.0, 1 - hits / 100)
        felt[unit] = reach
    known = {unit: pct for unit in felt if (pct := case.use(unit)) is not None}
    evidence = f"{_OPS[op]} use {used:.1f} of the 32 bytes of a sector"
    if known:
        evidence += f", most felt in {max(known, key=lambda unit: felt[unit] * known[unit])}"
    hit = relieve(case, felt, evidence, _OPS[op])
    return hit if hit.gain_pct >= LEAST_PCT else None


def _find(case: Case) -> Iterator[Hit]:
    return (hit for op in _OPS if (hit := _hit(case, op)) is not None)


check = judge_kernels(
    RULE,
    _find,
    metrics=[_BYTES.format("global", op) for op in _OPS],
    more=(*_HITS, _COUNTED, *L1_METRICS),
    record="--section MemoryWorkloadAnalysis_Tables",
    fix="let neighboring threads access neighboring addresses, pack structures, or reorder "
    "through shared memory",
    verify="sightline stats memory_hierarchy AFTER: fewer sectors per request",
)
