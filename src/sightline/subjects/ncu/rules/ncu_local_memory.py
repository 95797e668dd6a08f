"""Threads keep data in local memory: registers that were spilled, or arrays indexed by a value.

Symptom
    Sectors of local memory among those that pass the L1.

Why it hurts
    Local memory is device memory behind the same caches as all other data. It passes them, takes
    their room, and its latency stands where a register's was meant.

Evidence
    Sectors of local loads and stores among all of the L1's, and how many of either the L1 holds
    (`sightline stats memory_hierarchy`); spilled accesses, where Nsight Compute counted them
    (2025.1 and later).

Threshold
    Over 5 % of the sectors (ours, as for uncoalesced accesses: below it nothing is to be won).
    Estimate: L1, L2 and device memory without the local sectors, and the SM without the local
    instructions. Of device memory it is not counted how much is local: what global accesses missed
    is the most that is not. Where memory binds the kernel, the kernel shrinks to what the next unit
    needs, which may then be as busy as that is today. Else, at most the time in which warps wait
    for global and local memory, as far as its accesses are local.

Fix
    Leave a thread the registers that it needs: fewer blocks in __launch_bounds__, a higher
    -maxrregcount, smaller tiles, less unrolling; index small arrays by constants only.

False positives
    Stacks of functions that are not inlined, and printf. With more registers a thread, fewer
    threads fit: where that was worth the spills, nothing is gained.

References
    CUDA C++ Programming Guide, "Device Memory Accesses: Local Memory"; Nsight Compute, Kernel
    Profiling Guide, "Memory Tables".
"""

from __future__ import annotations

from dataclasses import replace

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.kernel_bounds import DRAM, ISSUE, L1, L2, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.diagnosis.stall_advice import WARP_LATENCY
from sightline.subjects.ncu._l1 import METRICS as L1_METRICS
from sightline.subjects.ncu._l1 import find_part_of_l1
from sightline.subjects.ncu._loads import MEMORY_WAITS, measure_memory_waits

RULE = Rule(
    "ncu-local-memory",
    "Local memory in use",
    explains=(*WAITS, "ncu-access-pattern", "ncu-memory-limit", "ncu-occupancy-achieved"),
)
LEAST_PCT = 5.0
_SPACES, _OPS = ("global", "local"), ("ld", "st")
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
_HITS = "l1tex__t_sector_pipe_lsu_mem_{}_op_{}_hit_rate.pct"
# By their names in Nsight Compute's MemoryWorkloadAnalysis section: requests for spilled registers.
_SPILLED = ("sass__inst_executed_register_spilling_mem_local", "derived__local_spilling_requests")
_OVERHEAD = "derived__local_spilling_requests_pct"
_REGISTERS = "launch__registers_per_thread"
_MOVED = ("dram__sectors_read.sum", "dram__sectors_write.sum")
_BESIDE = (
    *(name.format(s, o) for name in (_SECTORS, _HITS) for s in _SPACES for o in _OPS),
    *MEMORY_WAITS,
    *(*_SPILLED, _REGISTERS, *_MOVED, WARP_LATENCY, *L1_METRICS),
)


def _hit(case: Case) -> Hit | None:
    passed = {s: [case.get(_SECTORS.format(s, o)) or 0.0 for o in _OPS] for s in _SPACES}
    local, whole = sum(passed["local"]), sum(map(sum, passed.values()))
    overhead = case.get(_OVERHEAD)
    if not whole and overhead is not None and overhead >= LEAST_PCT:
        evidence = f"{format_pct(overhead)} of the requests to memory are for spilled registers"
        return relieve(case, {L1: overhead}, evidence)
    if not local or 100 * local < LEAST_PCT * whole:
        return None
    missed = {s: _count_missed(case, s, passed[s]) for s in _SPACES}
    felt = {
        L1: 100 * local / whole * find_part_of_l1(case, ""),
        L2: 100 * missed["local"] / max(sum(missed.values()), 1.0),
    }
    moved = [n for name in _MOVED if (n := case.get(name)) is not None]
    if moved and sum(moved):
        felt[DRAM] = max(0.0, 100 * (1 - missed["global"] / sum(moved)))
    evidence = _describe(case, 100 * local / whole)
    executed = case.count_opcodes("LDL", "STL")
    parts = {ISSUE: 100 * executed / case.instructions} if case.instructions else {}
    hit = relieve(case, felt, evidence, parts=parts | {"lsu": felt[L1]} if parts else None)
    known = {unit: used for unit in felt if (used := case.use(unit)) is not None}
    if known:
        worst = max(known, key=lambda unit: felt[unit] * known[unit])
        hit = replace(hit, evidence=f"{evidence}, most felt in {worst}")
    waits = measure_memory_waits(case)
    if hit.relieved is not None or waits is None:
        return hit
    # What warps wait for is felt before a unit is busy.
    gain = min(waits * local / whole, 100.0 if hit.next_limit is None else 100 - hit.next_limit.pct)
    return hit if gain <= hit.gain_pct else replace(hit, local_pct=gain, weight_pct=None)


def _count_missed(case: Case, space: str, passed: list[float]) -> float:
    """Sectors that the L1 does not hold; all of those of which nobody says."""
    rates = (case.get(_HITS.format(space, op)) for op in _OPS)
    return sum(n * (1 - (rate or 0.0) / 100) for n, rate in zip(passed, rates, strict=True))


def _describe(case: Case, share: float) -> str:
    registers = case.get(_REGISTERS)
    beside = "" if registers is None else f" with {format_several(round(registers), 'register')}"
    what = "local memory: registers are spilled" if case.get(*_SPILLED) else "local memory"
    return f"{format_pct(share)} of the sectors that threads{beside} access are of {what}"


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_OVERHEAD, *(_SECTORS.format("local", op) for op in _OPS)),
    more=_BESIDE,
    opcodes=("LDL", "STL"),
    record="--section MemoryWorkloadAnalysis_Tables",
    fix="leave a thread more registers (fewer blocks in __launch_bounds__, a higher "
    "-maxrregcount), or let it need fewer: smaller tiles, less unrolling, arrays indexed by "
    "constants; nvcc -Xptxas -v says what is spilled",
    verify="sightline stats memory_hierarchy AFTER: no local loads and stores",
)
