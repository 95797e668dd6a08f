"""Shared accesses take more turns than needed.

Symptom
    More wavefronts of shared memory are moved than the accessed bytes need.

Why it hurts
    Every needless one takes bandwidth of the L1.

Evidence
    Theoretical and ideal wavefronts, summed over the kernel and by instruction (`sightline stats
    memory_hierarchy`).

Threshold
    Nsight Compute 2024.1 (rule UncoalescedSharedAccess) speaks at any excess; here from 5 % of
    all on, below which nothing is to be won. Estimate: excess / all, of the L1's wavefronts
    that are of shared memory; where the L1 binds the kernel, what the next unit needs is left.

Fix
    Change the layout or width of shared accesses so that a warp needs one wavefront.

False positives
    Accesses that hit in the cache anyway; random access by nature.

References
    CUDA C++ Best Practices Guide 12.9, "Shared Memory and Memory Banks".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.kernel_bounds import L1, WAITS
from sightline.subjects.ncu.rules._uncoalesced import Access, find_uncoalesced

RULE = Rule(
    "ncu-uncoalesced-shared", "Uncoalesced shared accesses", explains=("ncu-wavefronts", *WAITS)
)
_ACCESS = Access(
    moved="memory_l1_wavefronts_shared",
    needed="memory_l1_wavefronts_shared_ideal",
    things="wavefronts",
    units={L1: ()},
)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name."""
    yield from find_uncoalesced(
        run,
        RULE,
        _ACCESS,
        "change the layout or width of shared accesses so that a warp needs one wavefront",
    )
