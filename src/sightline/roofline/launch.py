"""A profiled kernel's launch, and the limits of the SM it ran on."""

from __future__ import annotations

from sightline.roofline.facts import Facts
from sightline.roofline.hardware import SM_LIMITS
from sightline.roofline.occupancy import Launch, Limits

WARP = 32  # threads, on all of NVIDIA's GPUs
_ATTRIBUTE = "device__attribute_"
_WARPS = f"{_ATTRIBUTE}max_warps_per_multiprocessor"
_BLOCKS = (f"{_ATTRIBUTE}max_blocks_per_multiprocessor", f"{_ATTRIBUTE}limits_max_cta_per_sm")
_REGISTERS = f"{_ATTRIBUTE}max_registers_per_multiprocessor"
_SHARED = f"{_ATTRIBUTE}max_shared_memory_per_multiprocessor"
_SCHEDULERS = f"{_ATTRIBUTE}num_schedulers_per_multiprocessor"
_CARVEOUT = "launch__shared_mem_config_size"
_BARRIERS = "launch__occupancy_limit_barriers"
_LIMIT_SHARED = "launch__occupancy_limit_shared_mem"
# Warps that were there, % of those that an SM can hold.
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
METRICS = (
    _WARPS,
    *_BLOCKS,
    _REGISTERS,
    _SHARED,
    _SCHEDULERS,
    _CARVEOUT,
    _BARRIERS,
    _LIMIT_SHARED,
    "launch__block_size",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
)


def read_limits_and_launch(facts: Facts) -> tuple[Limits, Launch] | None:
    """What is needed to compute the occupancy; None where the recording lacks some of it."""
    limits = _limits(facts)
    threads = facts.get("launch__block_size") or _product(facts, "block")
    registers = facts.get("launch__registers_per_thread") or facts.row["registers_per_thread"]
    if limits is None or not threads or registers is None:
        return None
    parts = [facts.row[f"{p}_shared_bytes"] for p in ("static", "dynamic", "driver")]
    whole = facts.get("launch__shared_mem_per_block")
    shared = sum(p for p in parts if p is not None) if any(p is not None for p in parts) else whole
    if shared is None:
        return None
    carveout, barriers = facts.get(_CARVEOUT), facts.get(_BARRIERS)
    by_shared = facts.get(_LIMIT_SHARED)
    return limits, Launch(
        threads=int(threads),
        registers=int(registers),
        shared_bytes=int(shared),
        carveout_bytes=int(carveout) if carveout else None,
        barrier_limit=int(barriers) if barriers is not None else None,
        shared_limit=int(by_shared) if by_shared is not None else None,
    )


def _limits(facts: Facts) -> Limits | None:
    """The SM's limits: as the report states them, else by compute capability."""
    capability = facts.device.get("compute_capability")
    table = limit_device(capability)
    known = (
        (None, None, None, None)
        if table is None
        else (table.max_warps, table.max_blocks, table.registers, table.shared_bytes)
    )
    asked = (facts.get(_WARPS), facts.get(*_BLOCKS), facts.get(_REGISTERS), facts.get(_SHARED))
    warps, blocks, registers, shared = (
        a if a is not None else k for a, k in zip(asked, known, strict=True)
    )
    if warps is None or blocks is None or registers is None or shared is None:
        return None
    return Limits(
        max_warps=int(warps),
        max_blocks=int(blocks),
        registers=int(registers),
        shared_bytes=int(shared),
        schedulers=int(facts.get(_SCHEDULERS) or 4),
        shared_unit=_find_shared_unit(capability),
    )


def limit_device(capability: str | None) -> Limits | None:
    """What an SM of a compute capability ("9.0") can hold; None where the table has none."""
    known = SM_LIMITS.get(capability or "")
    if known is None:
        return None
    return Limits(*known, shared_unit=_find_shared_unit(capability))


def _find_shared_unit(capability: str | None) -> int:
    """Bytes in which shared memory is given out (cuda_occupancy.h)."""
    return 256 if capability is not None and int(capability.split(".")[0]) < 8 else 128


def _product(facts: Facts, what: str) -> int | None:
    sizes = [facts.row[f"{what}_{axis}"] for axis in "xyz"]
    return None if None in sizes else sizes[0] * sizes[1] * sizes[2]


def count_blocks(facts: Facts) -> int | None:
    """Blocks of the grid."""
    return _product(facts, "grid")


def count_threads(facts: Facts) -> int | None:
    """Threads of a block."""
    return _product(facts, "block")


def count_warps(facts: Facts) -> int | None:
    """Warps of the launch: a block's last one is whole, however few threads it has."""
    blocks, threads = count_blocks(facts), count_threads(facts)
    return None if blocks is None or threads is None else blocks * -(-threads // WARP)
