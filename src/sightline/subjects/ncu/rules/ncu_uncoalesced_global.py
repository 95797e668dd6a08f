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
    all on, below which nothing is to be won. Estimate: of L1, L2 and device memory, what each moved
    beyond what is needed. Where one of these binds the kernel, the kernel shrinks to what the next
    unit needs, which may then be as busy as that one is today; else a unit gives back the time
    of the excess.

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
from sightline.diagnosis.kernel_bounds import DRAM, L1, L2, WAITS
from sightline.subjects.ncu.rules._uncoalesced import Access, find_uncoalesced

RULE = Rule(
    "ncu-uncoalesced-global",
    "Uncoalesced global accesses",
    explains=(
        *WAITS,
        "ncu-access-pattern",
        "ncu-l1-limit",
        "ncu-memory-limit",
        "ncu-occupancy-achieved",
    ),
)
_ACCESS = Access(
    moved="memory_l2_theoretical_sectors_global",
    needed="memory_l2_theoretical_sectors_global_ideal",
    things="sectors",
    units={
        L1: (),
        L2: ("lts__t_sectors_srcunit_tex.sum",),
        DRAM: ("dram__sectors_read.sum", "dram__sectors_write.sum"),
    },
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
