"""Atomic operations wait for each other at the same few addresses.

Symptom
    One slice of the L2, or the L1's shared memory, does atomic operations nearly all the time,
    while the other units have little to do.

Why it hurts
    Atomic operations on one address are done one after the other, by the one L2 slice that holds
    it, however many SMs ask for them.

Evidence
    Busy cycles of the atomic units: of the busiest slice and of all; the instructions that were
    executed (`sightline stats instruction_mix`); the source line with most samples.

Threshold
    The busiest slice, or shared memory by atomics, at 60 % of its peak or more, and more than any
    other unit (Speed of Light: from 60 % on a unit is well utilized); of a slice its atomic unit
    alone, or all of it where that unit is half of it or more (ours). Where nobody counted that:
    atomics are executed, no unit is at 60 %, and the line with most samples is an atomic
    operation; or half of the L2's requests are atomics, and warps wait for global memory half of
    the time (ours). Estimate, global: without the waits, the kernel is as long as the busiest other
    unit needs.

Fix
    Add up in registers (by warp) and in shared memory (by block), and have one atomic operation a
    block; or spread it over several copies that are added at the end.

False positives
    Atomics that are the algorithm itself, such as a queue's counter: then fewer, larger turns.

References
    CUDA C++ Programming Guide, "Atomic Functions"; Nsight Compute, Kernel Profiling Guide, "Memory
    Tables" (L2 cache, reductions and atomics).
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Rule
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.kernel_bounds import L1, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.diagnosis.stall_advice import WARP_LATENCY
from sightline.roofline.facts import TIME
from sightline.roofline.placement import LATENCY_PCT
from sightline.subjects.ncu._loads import MEMORY_WAITS, measure_memory_waits

RULE = Rule(
    "ncu-atomics",
    "Contended atomics",
    explains=(*WAITS, "ncu-imbalance", "ncu-wavefronts", "ncu-occupancy-achieved"),
)
_SLICES = "lts__d_atomic_input_cycles_active.{}.pct_of_peak_sustained_elapsed"
# All that the busiest slice does: of atomics on one address it passes on one each second cycle, so
# that their unit, counted alone, is at half of its peak where the slice is full.
_SLICE = "lts__throughput.max.pct_of_peak_sustained_elapsed"
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum.pct_of_peak_sustained_elapsed"
_REQUESTS = "lts__t_requests_srcunit_tex.sum"
# Those without and with a result, of sums and the like, and of compare and swap.
_OF_ATOMICS = tuple(
    f"lts__t_requests_srcunit_tex_op_{op}.sum" for op in ("red", "atom_dot_alu", "atom_dot_cas")
)
_HALF_PCT = 50.0
# CUDA's functions, the classes of libcu++, Triton's and Numba's.
_CALL = re.compile(r"\batomic\w*|\bred\.|\batom\.", re.IGNORECASE)


def _hit(case: Case) -> Hit | None:
    # REDUX is an addition within a warp.
    everywhere = case.count_opcodes("ATOM", "RED") - case.count_opcodes("REDUX")
    of_shared = case.count_opcodes("ATOMS")
    if case.facts.opcodes and not everywhere:
        return None
    busiest, mean = (case.get(_SLICES.format(which)) for which in ("max", "avg"))
    shared, other = case.get(_SHARED) or 0.0, case.find_next_limit({})
    least = max(LATENCY_PCT, 0.0 if other is None else other.pct)
    whole = case.get(_SLICE) or 0.0
    if busiest is not None and busiest < whole <= 2 * busiest:
        busiest = whole
    if busiest is not None and busiest >= least:
        return Hit(
            case,
            100.0 if other is None else 100 * (1 - other.pct / busiest),
            None,
            f"{_count(everywhere - of_shared)}atomic operations keep one slice of the L2 busy for "
            f"{format_pct(busiest)} of the time, and all of them for {format_pct(mean or 0.0)}",
            "global memory",
            other,
            relieves_limit=True,
        )
    used = case.use(L1)
    if used and shared >= least * 0.99 and shared >= LATENCY_PCT:
        return relieve(
            case,
            {L1: min(100.0, 100 * shared / used)},
            f"{_count(of_shared)}atomic operations keep shared memory busy for "
            f"{format_pct(shared)} of the time",
            "shared memory",
        )
    if not everywhere or not case.waits:
        return None
    line = case.hot_line
    if line is not None and _CALL.search(line.text or ""):
        where = "shared memory" if of_shared > everywhere / 2 else "global memory"
        waits, text = line.share_pct, f"at the line where {format_pct(line.share_pct)} of the"
        text += " samples wait"
    elif (queued := _measure_queue(case)) is not None:
        where, (waits, asked) = "global memory", queued
        text = f"{format_pct(asked)} of all requests to the L2, and warps wait for global memory "
        text += f"{format_pct(waits)} of the time"
    else:
        return None
    evidence = f"{_count(everywhere)}atomic operations, {text}"
    return Hit(case, min(waits, case.headroom), None, evidence, where)


def _measure_queue(case: Case) -> tuple[float, float] | None:
    """How long warps wait for global memory, %, and which part of the L2's requests are atomics, %.

    None where either is less than half. Loads wait in the same queue as atomics, behind them.
    """
    asked, waits = case.get(_REQUESTS), measure_memory_waits(case)
    if not asked or waits is None:
        return None
    reds, *others = (case.get(name) or 0.0 for name in _OF_ATOMICS)
    share = 100 * (reds + sum(others)) / asked
    return (min(waits, 100.0), min(share, 100.0)) if min(share, waits) >= _HALF_PCT else None


def _count(instructions: float) -> str:
    return f"{format_count(round(instructions))} warp-wide " if instructions else ""


check = judge_kernels(
    RULE,
    _hit,
    metrics=(*(_SLICES.format(which) for which in ("max", "avg")), _SLICE, _SHARED, TIME),
    more=(_REQUESTS, *_OF_ATOMICS, *MEMORY_WAITS, WARP_LATENCY),
    record="--set full",
    fix="add up in registers and shared memory first and have one atomic operation a block, or "
    "spread it over several copies that are added at the end",
    verify="sightline stats speed_of_light AFTER: another unit over 60 %",
)
