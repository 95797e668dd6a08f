"""Loads or stores use only part of the sectors that they move.

Symptom
    An access moves 32-byte sectors and uses few bytes of each.

Why it hurts
    The rest of each sector takes bandwidth at every level that the access reaches.

Evidence
    Bytes used per sector of global loads and stores, and how many of all sectors they are
    (`sightline stats memory_hierarchy`). Where that was not recorded, the breakdown of the L2's
    throughput tells of stores: its input from the SMs takes in one request after the other, and
    its sectors have little to do. Or the sectors that reach the L2 for each request of a warp do
    (the memory chart alone).

Threshold
    Fewer bytes per sector than the 32 that it has (Nsight Compute 2024.1, rule
    MemoryCacheAccessPattern); here from a fifth on, below which little is to be won. Where the
    sectors beyond the ideal were counted, ncu-uncoalesced-global says so instead; of local memory,
    ncu-local-memory. Estimate: (1 − bytes / 32) of these accesses' part of what the L1 moves, and
    of what passes it and the L2; a unit that binds the kernel leaves what the next one needs. By
    the breakdown: an input that binds the kernel (60 % of its peak, Nsight Compute's Speed of
    Light) and is twice as busy as the sectors (ours: stores of whole sectors keep it 1.0 times as
    busy on an A40 and a T4, and 1.7 times on an H100; those of 4 bytes 2.7 and 3.5 times), with
    next to no output and no atomics. What is left is the sectors' rate. By the chart: 32 threads
    read or write 512 bytes at most, 16 whole sectors, so that what is above was used in part.

Fix
    Let neighboring threads access neighboring addresses: structures of arrays in place of arrays of
    structures; whole structures by vector accesses; use shared memory to change the order.

False positives
    Tables that are read at random and fit the cache.

References
    CUDA C++ Best Practices Guide 12.9, "Coalesced Access to Global Memory".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import DRAM, L1, L2, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.errors import MissingDataError
from sightline.subjects.ncu._l1 import METRICS as L1_METRICS
from sightline.subjects.ncu._l1 import OPS, SPACES, count_sectors, find_part_of_l1
from sightline.subjects.ncu._l2 import METRICS as L2_METRICS
from sightline.subjects.ncu._l2 import find_partial_stores

RULE = Rule(
    "ncu-access-pattern",
    "Uncoalesced access: sectors partly used",
    explains=(*WAITS, "ncu-memory-limit"),
)
SECTOR = 32.0
UNUSED = 0.2
LEAST_PCT = 1.0  # ours: less than that is not a pattern but a few accesses at the end of a kernel
_BYTES = "smsp__sass_average_data_bytes_per_sector_mem_{}_op_{}.ratio"
_OPS = {"ld": "global loads", "st": "global stores"}
_HITS = ("l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct")
# What passes the L1, sectors, and how many requests it is of.
_PASSED = {
    "ld": "lts__t_sectors_srcunit_tex_op_read.sum",
    "st": "lts__t_sectors_srcunit_tex_op_write.sum",
}
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_{}_op_{}.sum"
_SECTORS_ASKED = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
WHOLE_SECTORS = 16  # 32 threads at 16 bytes each
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


def _hit_by_input(case: Case) -> Hit | None:
    """Where the bytes per sector were not measured: what the L2's input says of them."""
    limit = find_partial_stores(case)
    if limit is None or case.get(_BYTES.format("global", "st"), _COUNTED) is not None:
        return None
    # The L1 sends each of the requests that the L2 takes in.
    return relieve(
        case,
        dict.fromkeys((L1, L2), limit.needless_pct),
        f"the L2's input from the SMs is busy {format_pct(limit.input_pct)} of the time, and its "
        f"sectors {format_pct(limit.sectors_pct)}: stores carry part of a sector each",
        _OPS["st"],
    )


def _hit_by_requests(case: Case, op: str) -> Hit | None:
    """Where only the memory chart was recorded: more sectors a request than 32 threads can use."""
    measured = (_BYTES.format("global", op), _COUNTED, *(_SECTORS_ASKED.format(o) for o in _OPS))
    if any(case.get(name) is not None for name in measured):
        return None
    moved, asked = case.get(_PASSED[op]), case.get(_REQUESTS.format("global", op))
    local = case.get(_REQUESTS.format("local", op)) or 0.0
    if not moved or not asked or local or case.get(_REQUESTS.format("global", "red")):
        return None
    if moved / asked <= WHOLE_SECTORS:
        return None
    needless = 100 * (1 - WHOLE_SECTORS * asked / moved)
    return relieve(
        case,
        {L1: needless, L2: needless},
        f"{_OPS[op]} move {moved / asked:.1f} sectors a request, where {WHOLE_SECTORS} hold all "
        "that a warp can use",
        _OPS[op],
    )


def _find(case: Case) -> Iterator[Hit]:
    return (hit for op in _OPS if (hit := _hit(case, op)) is not None)


_FIX = (
    "let neighboring threads access neighboring addresses: structures of arrays in place of arrays "
    "of structures, whole structures by vector accesses (float4), or staged through shared memory"
)
_VERIFY = "sightline stats memory_hierarchy AFTER: fewer sectors per request"
_check_bytes = judge_kernels(
    RULE,
    _find,
    metrics=[_BYTES.format("global", op) for op in _OPS],
    more=(*_HITS, _COUNTED, *L1_METRICS),
    record="--section MemoryWorkloadAnalysis_Tables",
    fix=_FIX,
    verify=_VERIFY,
)
_check_input = judge_kernels(
    RULE,
    _hit_by_input,
    metrics=L2_METRICS,
    more=(_BYTES.format("global", "st"), _COUNTED),
    record="--section SpeedOfLight",
    fix=_FIX,
    verify=_VERIFY,
)


_check_requests = judge_kernels(
    RULE,
    lambda case: (hit for op in _OPS if (hit := _hit_by_requests(case, op)) is not None),
    metrics=tuple(_PASSED.values()),
    more=(
        _COUNTED,
        *(_BYTES.format("global", op) for op in _OPS),
        *(_SECTORS_ASKED.format(op) for op in _OPS),
        *(_REQUESTS.format(space, op) for space in SPACES for op in (*_OPS, "red")),
    ),
    record="--section MemoryWorkloadAnalysis_Chart",
    fix=_FIX,
    verify="sightline stats memory_hierarchy AFTER: fewer sectors for each request",
)


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel name and kind of access."""
    found: list[Finding] = []
    for ask in (_check_input, _check_requests):
        with suppress(MissingDataError):
            found += ask(run)
    yield from found
    try:
        yield from _check_bytes(run)
    except MissingDataError:
        if not found:  # loads, and stores that bind nothing, were not measured
            raise
