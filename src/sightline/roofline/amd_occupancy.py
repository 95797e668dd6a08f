"""Theoretical occupancy of AMD's compute units: how many waves fit of a launch, and what limits it.

The rules are LLVM's for the GCN and CDNA targets (llvm/lib/Target/AMDGPU/Utils/AMDGPUBaseInfo.cpp,
IsaInfo): a compute unit has four SIMDs; registers are given out per wave in units from a SIMD's own
file, accumulation registers of the same file since CDNA 2; LDS per work-group from the unit's; of
work-groups with several waves, sixteen at most, for each needs a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass

from sightline.roofline.occupancy import Occupancy

SIMDS = 4
_BARRIERS = 16
_SCALARS, _SCALAR_UNIT = 800, 16  # scalar registers of a SIMD


@dataclass(frozen=True)
class Unit:
    """What a compute unit can hold: waves and vector registers per SIMD, LDS in bytes."""

    waves: int
    vgprs: int
    vgpr_unit: int
    lds_bytes: int
    lds_unit: int
    is_unified: bool  # architectural and accumulation registers come of one file


_OLD = Unit(10, 256, 4, 65536, 512, is_unified=False)
_NEW = Unit(8, 512, 8, 65536, 512, is_unified=True)
UNITS = {
    "gfx906": _OLD,
    "gfx908": _OLD,
    "gfx90a": _NEW,
    "gfx940": _NEW,
    "gfx941": _NEW,
    "gfx942": _NEW,
    # LLVM, AMDGPU.td: FeatureAddressableLocalMemorySize163840; given out in 320 dwords.
    "gfx950": Unit(8, 512, 8, 163840, 1280, is_unified=True),
}


def compute_wave_occupancy(
    unit: Unit, threads: int, vgprs: int, agprs: int, sgprs: int, lds_bytes: int
) -> Occupancy:
    """Work-groups and waves of 64 that a compute unit holds of a launch.

    What `Occupancy` calls registers are the vector registers, shared memory is LDS.
    """
    waves = -(-threads // 64)
    places = unit.waves * SIMDS
    if unit.is_unified:
        # Accumulation registers begin at a multiple of four.
        needed = _up(_up(vgprs, 4) + agprs, unit.vgpr_unit) if agprs else _up(vgprs, unit.vgpr_unit)
    else:
        needed = _up(max(vgprs, agprs), unit.vgpr_unit)
    scalars = _up(sgprs, _SCALAR_UNIT)
    groups = {
        "warps": places // waves,
        "registers": (unit.vgprs // needed if needed else unit.waves) * SIMDS // waves,
        "scalar_registers": (_SCALARS // scalars if scalars else unit.waves) * SIMDS // waves,
        "shared_mem": unit.lds_bytes // _up(lds_bytes, unit.lds_unit) if lds_bytes else places,
    }
    if waves > 1:
        groups["barriers"] = _BARRIERS
    return Occupancy(groups, waves, places)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
