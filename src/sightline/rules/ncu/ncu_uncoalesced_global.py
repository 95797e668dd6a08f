"""Global accesses fetch more than they use.

Symptom
    More 32-byte sectors of global memory are moved than the accessed bytes need.

Why it hurts
    Every needless one takes bandwidth of the L2.

Evidence
    Theoretical and ideal sectors, summed over the kernel and by instruction (`sightline stats
    memory_hierarchy`).

Threshold
    Nsight Compute 2024.1 (rule UncoalescedGlobalAccess) speaks at any excess; here from 5 % of
    all on, below which nothing is to be won. Estimate: excess / all, local, weighed with the
    throughput of the L2.

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

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.ncu._uncoalesced import Access, find_uncoalesced

RULE = Rule("ncu-uncoalesced-global", "Uncoalesced global accesses")
_ACCESS = Access(
    moved="memory_l2_theoretical_sectors_global",
    needed="memory_l2_theoretical_sectors_global_ideal",
    throughput="lts__throughput.avg.pct_of_peak_sustained_elapsed",
    things="sectors",
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
