"""Global accesses fetch more than they use.

Symptom
    More 32-byte sectors of global memory are moved than the accessed bytes need.

Why it hurts
    Every needless one takes bandwidth of the L2, and of device memory where it misses there.

Evidence
    Theoretical and ideal sectors, summed over the kernel and by instruction (`sightline stats
    memory_hierarchy`).

Threshold
    Nsight Compute 2024.1 (rule UncoalescedGlobalAccess) speaks at any excess; here from 5 % of
    all on, below which nothing is to be won. Estimate: excess / all, local, weighed with the
    throughput of the L2, or, of the share that misses there, with that of device memory: the one
    where that is more (as its rule MemoryCacheAccessPattern does). Ours besides: the kernel gets
    no shorter than what the next unit needs.

Fix
    Let neighboring threads access neighboring addresses; use structures of arrays; stage
    through shared memory.

False positives
    Accesses that hit in the cache anyway; random access by nature.

References
    CUDA C++ Best Practices Guide 12.9, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.kernel_bounds import DRAM, L2
from sightline.subjects.ncu.rules._uncoalesced import Access, find_uncoalesced

RULE = Rule("ncu-uncoalesced-global", "Uncoalesced global accesses")
_ACCESS = Access(
    moved="memory_l2_theoretical_sectors_global",
    needed="memory_l2_theoretical_sectors_global_ideal",
    things="sectors",
    units=(L2, DRAM),
    hit_rates=(None, "lts__t_sector_hit_rate.pct"),
)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    yield from find_uncoalesced(
        run,
        RULE,
        _ACCESS,
        "let neighboring threads access neighboring addresses; use structures of arrays; stage "
        "through shared memory",
    )
