"""The kernels of a run that AMD's profiler measured: counters, speed of light, occupancy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sightline.core.model.run import Run
from sightline.roofline.amd import (
    COMPUTE_PARTS,
    MEMORY_PARTS,
    Light,
    compute_light,
    compute_memory_pct,
    find_busiest,
)
from sightline.roofline.amd_occupancy import UNITS, compute_wave_occupancy
from sightline.roofline.facts import Facts, load_facts
from sightline.roofline.occupancy import Occupancy
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

_LAUNCH = ("Arch_VGPR", "Accum_VGPR", "SGPR", "LDS_Per_Workgroup")


@dataclass(frozen=True)
class AmdKernel:
    """One kernel: its facts with all counters, and what they say.

    `compute` and `memory` are the busiest part of either and its share of the peak in %; the facts
    hold both shares under the names that rules ask NVIDIA's kernels for.
    """

    facts: Facts
    light: dict[str, Light]
    compute: tuple[str, float] | None
    memory: tuple[str, float] | None
    fabric_pct: float | None
    occupancy: Occupancy | None

    def pct(self, figure: str) -> float | None:
        """A figure's share of its peak."""
        light = self.light.get(figure)
        return None if light is None else light.pct

    def value(self, figure: str) -> float | None:
        """A figure in its unit."""
        light = self.light.get(figure)
        return None if light is None else light.value


def load_amd_kernels(run: Run) -> list[AmdKernel]:
    """The profiled kernels that ran on AMD's GPUs, in order; read once for a run."""
    return run.once(_load_kernels)


def _load_kernels(run: Run) -> list[AmdKernel]:
    if "amd" not in run.table("devices").get_column("vendor"):
        return []
    return [_describe(f) for f in load_facts(run, (), ("",)) if f.is_amd]


def _describe(facts: Facts) -> AmdKernel:
    light = compute_light(facts.metrics, facts.device.get("compute_capability"), facts.ns)
    fabric = compute_memory_pct(light)
    parts = [p for p in (find_busiest(light, MEMORY_PARTS), ("device memory", fabric)) if p]
    known = [(pct, name) for name, pct in parts if pct is not None]
    compute = find_busiest(light, COMPUTE_PARTS)
    memory = (max(known)[1], max(known)[0]) if known else None
    shares = {
        name: part[1]
        for name, part in ((SM_PCT, compute), (MEMORY_PCT, memory))
        if part is not None
    }
    facts = replace(facts, metrics=facts.metrics | shares)
    return AmdKernel(facts, light, compute, memory, fabric, _find_occupancy(facts))


def _find_occupancy(facts: Facts) -> Occupancy | None:
    """What a compute unit holds of the launch; None where the launch or the GPU is not known."""
    unit = UNITS.get(facts.device.get("compute_capability") or "")
    threads = facts.row["block_x"]
    needs = [facts.get(name) for name in _LAUNCH]
    if unit is None or not threads or any(n is None or not 0 <= n < 2**31 for n in needs):
        return None
    if not 0 < threads <= 1024:
        return None
    return compute_wave_occupancy(unit, threads, *(int(n) for n in needs if n is not None))
