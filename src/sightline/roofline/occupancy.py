"""Theoretical occupancy: how many warps an SM can hold of a launch, and what limits it.

The rules are those of NVIDIA's occupancy calculation (CUDA C++ Programming Guide, "Hardware
Multithreading"; cuda_occupancy.h of the CUDA toolkit): registers are given out per warp in units,
from the register file of the warp's own scheduler; shared memory per block in units, with what
the driver keeps for itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sightline.core.units import format_pct

REGISTER_UNIT = 256  # registers of a warp are given out in these, since compute capability 3.0
LIMITERS = ("warps", "blocks", "registers", "shared_mem", "barriers")


@dataclass(frozen=True)
class Limits:
    """What one SM can hold."""

    max_warps: int
    max_blocks: int
    registers: int
    shared_bytes: int
    warp_size: int = 32
    schedulers: int = 4
    shared_unit: int = 128  # 256 before compute capability 8.0
    max_block_threads: int = 1024
    max_registers_per_thread: int = 255


@dataclass(frozen=True)
class Launch:
    """What one block needs."""

    threads: int
    registers: int
    shared_bytes: int  # static, dynamic and what the driver keeps
    # The part of the L1 that was set aside for shared memory; None where it is not known.
    carveout_bytes: int | None = None
    barrier_limit: int | None = None  # blocks that the barriers allow, as the profiler says
    # Blocks that shared memory allows, as the profiler says: with the largest part of the L1 that
    # the driver would set aside, where a smaller one was enough for this launch.
    shared_limit: int | None = None


@dataclass(frozen=True)
class Occupancy:
    """The answer for one launch."""

    blocks: dict[str, int]  # blocks per SM that each resource allows
    warps_per_block: int
    max_warps: int

    @property
    def active_blocks(self) -> int:
        """Blocks that an SM holds at once."""
        return min(self.blocks.values())

    @property
    def active_warps(self) -> int:
        """Warps that an SM holds at once."""
        return self.active_blocks * self.warps_per_block

    @property
    def pct(self) -> float:
        """Theoretical occupancy."""
        return 100 * self.active_warps / self.max_warps

    def describe(self) -> str:
        """How many warps fit an SM, for a person."""
        return f"{self.active_warps} of {self.max_warps} warps fit an SM ({format_pct(self.pct)})"

    def name_limiters(self) -> str:
        """What is used up first, for a person."""
        return ", ".join(self.limiters).replace("_mem", " memory")

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that are used up first."""
        return tuple(n for n, blocks in self.blocks.items() if blocks == self.active_blocks)


def compute_occupancy(limits: Limits, launch: Launch) -> Occupancy:
    """Blocks and warps that an SM holds of a launch."""
    warps = _up(launch.threads, limits.warp_size) // limits.warp_size
    shared = _up(launch.shared_bytes, limits.shared_unit)
    capacity = limits.shared_bytes if launch.carveout_bytes is None else launch.carveout_bytes
    blocks = {
        "warps": limits.max_warps // warps if warps else limits.max_blocks,
        "blocks": limits.max_blocks,
        "registers": _by_registers(limits, launch.registers, warps),
        "shared_mem": capacity // shared if shared else limits.max_blocks,
    }
    if launch.shared_limit is not None:
        blocks["shared_mem"] = launch.shared_limit
    if launch.barrier_limit is not None:
        blocks["barriers"] = launch.barrier_limit
    return Occupancy(blocks, warps, limits.max_warps)


def _by_registers(limits: Limits, registers: int, warps: int) -> int:
    """Blocks that fit the register file; each scheduler has its own share of it."""
    if not registers or not warps:
        return limits.max_blocks
    per_warp = _up(registers * limits.warp_size, REGISTER_UNIT)
    per_scheduler = limits.registers // limits.schedulers // per_warp
    return per_scheduler * limits.schedulers // warps


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Neighbour:
    """A setting near the launch's own, and the occupancy that it would give."""

    setting: str  # registers, shared_bytes or threads
    value: int
    pct: float
    limiters: tuple[str, ...]


def list_neighbors(limits: Limits, launch: Launch) -> list[Neighbour]:
    """For each setting, the nearest values below and above that change the occupancy."""
    own = compute_occupancy(limits, launch).pct
    # With another need of shared memory the driver would choose another carve-out: the whole.
    steps = {
        "registers": (range(1, limits.max_registers_per_thread + 1), launch.registers),
        "shared_bytes": (
            range(0, limits.shared_bytes + 1, limits.shared_unit),
            launch.shared_bytes,
        ),
        "threads": (
            range(limits.warp_size, limits.max_block_threads + 1, limits.warp_size),
            launch.threads,
        ),
    }
    found = []
    for setting, (values, current) in steps.items():
        for candidates in (
            [v for v in reversed(values) if v < current],
            [v for v in values if v > current],
        ):
            for value in candidates:
                result = compute_occupancy(limits, change_setting(launch, setting, value))
                if abs(result.pct - own) > 1e-9 and result.active_blocks:
                    found.append(Neighbour(setting, value, result.pct, result.limiters))
                    break
    return found


def change_setting(launch: Launch, setting: str, value: int) -> Launch:
    """The launch with another value of a setting: registers, threads or shared_bytes."""
    if setting == "registers":
        return replace(launch, registers=value)
    if setting == "threads":
        return replace(launch, threads=value)
    # With another need of shared memory the driver would choose another carve-out: the whole.
    return replace(launch, shared_bytes=value, carveout_bytes=None, shared_limit=None)
