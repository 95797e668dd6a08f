"""How much of the GPU a launch can fill, by its shape alone: blocks, warps, lanes and waves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.lookup import find_rows, number_groups, take_rows
from sightline.core.model.run import Run
from sightline.roofline.facts import complete_device
from sightline.roofline.hardware import find_gpu
from sightline.roofline.launch import limit_device
from sightline.roofline.occupancy import Launch, Occupancy, compute_occupancy

GRID = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
_RESOURCES = ["registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes"]
_DEVICE = ["rank", "device_id"]
_COLUMNS = dict.fromkeys(("blocks", "threads", "sm_count", "warp_size"), pl.Int64) | dict.fromkeys(
    ("sms", "schedulers", "slots", "lanes", "wave", "share"), pl.Float64
)
# Of an SM and of a compute unit: each issues from its own warps (CUDA C++ Programming Guide,
# "Hardware Multithreading", since Volta; LLVM's AMDGPU target: four SIMDs).
_SCHEDULERS = 4
# "Once an occupancy of 50 percent has been reached, additional increases in occupancy do not
# translate into improved performance" (CUDA C Best Practices Guide, "Occupancy").
_ENOUGH_PCT = 50.0


@dataclass(frozen=True)
class Fill:
    """Parts of 1 that a launch fills at most, each of what the one before it has filled.

    `sms`: multiprocessors that have a block. `schedulers`: of these, the ones that have a warp.
    `slots`: warps beside each other, where a multiprocessor's number of blocks is what limits them.
    `lanes`: of the warps' lanes, those with a thread. `wave`: of the time of the multiprocessor
    that gets most blocks, what all of them need on average. 1 where it is not known.
    """

    blocks: int
    threads: int
    sm_count: int
    warp_size: int | None
    sms: float = 1.0
    schedulers: float = 1.0
    slots: float = 1.0
    lanes: float = 1.0
    wave: float = 1.0
    occupancy: Occupancy | None = None

    @property
    def share(self) -> float:
        """What is filled of the GPU; how evenly the last wave is spread is not in it."""
        return self.sms * self.schedulers * self.slots * self.lanes


def add_fill(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels (`device_op_id`, GRID, rank and device) with the fields of `Fill`, and its share.

    Null where the grid, the block or the device's number of multiprocessors is not known.
    """
    shapes = run.columns("device_ops", ["device_op_id", *_RESOURCES])
    rows = find_rows(shapes.get_column("device_op_id"), kernels.get_column("device_op_id"))
    known = kernels.hstack(take_rows(shapes.select(_RESOURCES), rows))
    kind_of, kinds = number_groups(known, [*_DEVICE, *GRID, *_RESOURCES])
    devices = _list_devices(run)
    fills = [
        measure_fill(row, devices.get((row["rank"], row["device_id"]), {}))
        for row in kinds.iter_rows(named=True)
    ]
    of_kind = pl.DataFrame(
        pl.Series(name, [getattr(fill, name, None) for fill in fills], kind)
        for name, kind in _COLUMNS.items()
    )
    return known.hstack(take_rows(of_kind, kind_of))


def compute_room(run: Run, launch: dict[str, Any]) -> Occupancy | None:
    """What one multiprocessor holds of a launch (a row of `add_fill`); None where not known."""
    device = _list_devices(run).get((launch["rank"], launch["device_id"]), {})
    return _compute_held(launch, device, launch["threads"])


def measure_fill(launch: dict[str, Any], device: dict[str, Any]) -> Fill | None:
    """The fill of a row of `device_ops` on a row of `devices`; None where too little is known."""
    sizes = [launch[name] for name in GRID]
    sm_count = device.get("sm_count")
    if None in sizes or not sm_count:
        return None
    blocks, threads = (a * b * c for a, b, c in (sizes[:3], sizes[3:]))
    if blocks <= 0 or threads <= 0:
        return None
    size = _find_warp_size(device)
    warps = None if size is None else -(-threads // size)
    held = _compute_held(launch, device, threads)
    each = -(-blocks // sm_count)  # blocks of the multiprocessor that gets most of them
    at_once = each if held is None or not held.active_blocks else min(each, held.active_blocks)
    return Fill(
        blocks,
        threads,
        sm_count,
        size,
        sms=min(1.0, blocks / sm_count),
        schedulers=1.0 if warps is None else min(1.0, at_once * warps / _SCHEDULERS),
        slots=_fill_slots(blocks, sm_count, held),
        lanes=1.0 if size is None or warps is None else threads / (warps * size),
        wave=_fill_wave(blocks, sm_count, held),
        occupancy=held,
    )


def _fill_slots(blocks: int, sm_count: int, held: Occupancy | None) -> float:
    """1, but where an SM has no place for more blocks, and over half of its warps are free."""
    if held is None or held.active_blocks < held.blocks["blocks"]:
        return 1.0
    if blocks < sm_count * held.active_blocks:
        return 1.0
    return min(1.0, held.pct / _ENOUGH_PCT)


def _fill_wave(blocks: int, sm_count: int, held: Occupancy | None) -> float:
    """How full the waves are in the mean; below one wave, how evenly the blocks are spread."""
    if blocks <= sm_count:
        return 1.0
    whole = 1 if held is None or not held.active_blocks else held.active_blocks
    waves = blocks / (sm_count * whole)
    if waves <= 1:
        waves = blocks / sm_count
    return waves / -(-waves // 1)


def _compute_held(launch: dict[str, Any], device: dict[str, Any], threads: int) -> Occupancy | None:
    limits = limit_device(device.get("compute_capability"))
    registers = launch.get("registers_per_thread")
    if limits is None or registers is None:
        return None
    shared = sum(launch.get(name) or 0 for name in _RESOURCES[1:])
    return compute_occupancy(limits, Launch(threads, registers, shared))


def _find_warp_size(device: dict[str, Any]) -> int | None:
    """Threads of a warp, a wave: as recorded, 32 of NVIDIA, by architecture of AMD; else None.

    CDNA and GCN run waves of 64; RDNA's compiler chooses 32 unless it is told otherwise (LLVM, User
    Guide for AMDGPU Backend, "wavefrontsize64"). Sub-groups of Intel's GPUs differ by kernel.
    """
    size = device.get("warp_size")
    if size:  # a damaged recording may say 0
        return int(size)
    if device.get("vendor") == "nvidia":
        return 32
    capability = device.get("compute_capability") or ""
    if device.get("vendor") != "amd" or capability.startswith("gfx1"):
        return 32 if capability.startswith("gfx1") else None
    gpu = find_gpu(device.get("name"), device.get("memory_bytes"))
    is_cdna = gpu is not None and (gpu.text("architecture") or "").startswith("cdna")
    return 64 if is_cdna or capability.startswith("gfx9") else None


def _list_devices(run: Run) -> dict[tuple[int, int], dict[str, Any]]:
    rows = run.table("devices").iter_rows(named=True)
    return {(row["rank"], row["device_id"]): complete_device(row) for row in rows}
