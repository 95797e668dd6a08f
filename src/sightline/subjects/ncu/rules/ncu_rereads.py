"""Blocks read the same data from the L2 over and over, and the L2 binds the kernel.

Symptom
    The L2 at its limit, nearly all of its reads hit, and device memory has little to do.

Why it hurts
    Each block, or each tile of results, reads for itself what others read, too. The L2 gives out
    many times what the kernel reads at all, and is as busy as it can be with that.

Evidence
    Bytes that went from the L2 to the SMs, and bytes that came from device memory; the L2's size,
    as what lies in it already is read without them.

Threshold
    The L2 at 80 % of its peak or more, and busiest (Nsight Compute 2024.1, rule SOLBottleneck);
    each byte read four times or more on average (ours), and reads at least 70 % of its sectors
    (ours: else stores or atomics fill it). Estimate, global: without the repeated reads the kernel
    is as long as the next unit needs.

Fix
    Larger tiles: more results a block share what it reads. A tile twice as wide and high halves the
    bytes.

False positives
    Data that each block needs whole, and that no block can hold.

References
    CUDA C++ Programming Guide, "Shared Memory"; CUTLASS, "Efficient GEMM in CUDA" (threadblock
    tiles); Triton, "Matrix Multiplication" (L2 cache optimizations).
"""

from __future__ import annotations

from sightline.core.model.declare import Rule
from sightline.core.units import format_bytes, format_pct
from sightline.diagnosis.kernel_bounds import L2, LIMIT_PCT, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels

RULE = Rule("ncu-rereads", "Read again and again from the L2", explains=("ncu-memory-limit",))
LEAST_TIMES, LEAST_READ_PCT = 4.0, 70.0
_TO_SMS = "l1tex__m_xbar2l1tex_read_bytes.sum"
_FROM_MEMORY = ("dram__bytes_read.sum", "dram__bytes_op_read.sum")
_SECTORS = "lts__t_sectors.sum"  # of 32 bytes (Kernel Profiling Guide, "Memory Tables")
_SECTOR_BYTES = 32


def _hit(case: Case) -> Hit | None:
    now, given, came = case.busiest, case.get(_TO_SMS), case.get(*_FROM_MEMORY)
    sectors, size = case.get(_SECTORS), case.facts.device.get("l2_bytes")
    if now is None or now.unit != L2 or now.pct < LIMIT_PCT:
        return None
    if not given or not sectors or came is None or not size:
        return None
    # As much as fits may have lain there before.
    once = max(came, float(size))
    if given < LEAST_TIMES * once or 100 * given < LEAST_READ_PCT * sectors * _SECTOR_BYTES:
        return None
    evidence = (
        f"the L2 gives the SMs {format_bytes(round(given))}, {given / once:.0f} times the "
        f"{format_bytes(round(once))} that "
        f"{'device memory gives it' if came >= size else 'it can hold'}, and is at "
        f"{format_pct(now.pct)} of its peak"
    )
    return relieve(case, {L2: 100 * (1 - once / given)}, evidence)


check = judge_kernels(
    RULE,
    _hit,
    metrics=(_TO_SMS,),
    more=(*_FROM_MEMORY, _SECTORS),
    record="--set full",
    fix="let each block compute more of the results that share what it reads: larger tiles (of a "
    "product, more rows and columns a block), more items for each load; share tiles among the "
    "blocks of a cluster where there are such (Hopper and later)",
    verify="sightline stats memory_hierarchy AFTER: fewer bytes from the L2",
)
