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
    Estimate: the share that local memory has of what passes the L1, or of what reaches the L2, each
    weighed with that unit's throughput; the larger counts. Not more than the busiest unit needs
    once these sectors are gone; of device memory it is not known how much is local, and none is
    taken off.

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

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.kernel_bounds import L1, L2, LIMIT_PCT, Case, Hit
from sightline.diagnosis.profiled import load_cases, make_findings

RULE = Rule("ncu-local-memory", "Local memory in use")
LEAST_PCT = 5.0
_SPACES, _OPS = ("global", "local"), ("ld", "st")
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
_HITS = "l1tex__t_sector_pipe_lsu_mem_{}_op_{}_hit_rate.pct"
# By their names in Nsight Compute's MemoryWorkloadAnalysis section: requests for spilled registers.
_SPILLED = ("sass__inst_executed_register_spilling_mem_local", "derived__local_spilling_requests")
_REGISTERS = "launch__registers_per_thread"


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    looked = [_SECTORS.format("local", op) for op in _OPS]
    if not load_cases(run, looked, "--section MemoryWorkloadAnalysis_Tables"):
        return
    asked = [name.format(s, o) for name in (_SECTORS, _HITS) for s in _SPACES for o in _OPS]
    every = load_cases(run, (*asked, *_SPILLED, _REGISTERS), "")
    yield from make_findings(
        RULE,
        [hit for case in every if (hit := _hit(case)) is not None],
        every,
        lambda h: f"{h.evidence}.",
        "leave a thread more registers (fewer blocks in __launch_bounds__, a higher "
        "-maxrregcount), or let it need fewer: smaller tiles, less unrolling, arrays indexed by "
        "constants; nvcc -Xptxas -v says what is spilled",
        "sightline stats memory_hierarchy AFTER: no local loads and stores",
    )


def _hit(case: Case) -> Hit | None:
    passed = {s: [case.get(_SECTORS.format(s, o)) or 0.0 for o in _OPS] for s in _SPACES}
    local, whole = sum(passed["local"]), sum(map(sum, passed.values()))
    if not local or 100 * local < LEAST_PCT * whole:
        return None
    missed = {s: _count_missed(case, s, passed[s]) for s in _SPACES}
    felt = {
        L1: 100 * local / whole,
        L2: 100 * missed["local"] / max(sum(missed.values()), 1.0),
    }
    evidence = _describe(case, felt[L1])
    used = {unit: pct for unit in felt if (pct := case.use(unit)) is not None}
    if not used:
        return Hit(case, felt[L1], 100.0, evidence)
    worst = max(used, key=lambda unit: felt[unit] * used[unit])
    return Hit(
        case,
        felt[worst],
        used[worst],
        f"{evidence}, most felt in {worst}",
        next_limit=case.find_next_limit(felt),
        relieves_limit=used[worst] >= LIMIT_PCT,
    )


def _count_missed(case: Case, space: str, passed: list[float]) -> float:
    """Sectors that the L1 does not hold; all of those of which nobody says."""
    rates = (case.get(_HITS.format(space, op)) for op in _OPS)
    return sum(n * (1 - (rate or 0.0) / 100) for n, rate in zip(passed, rates, strict=True))


def _describe(case: Case, share: float) -> str:
    registers = case.get(_REGISTERS)
    beside = "" if registers is None else f" with {format_count(round(registers))} registers"
    what = "local memory: registers are spilled" if case.get(*_SPILLED) else "local memory"
    return f"{format_pct(share)} of the sectors that threads{beside} access are of {what}"
