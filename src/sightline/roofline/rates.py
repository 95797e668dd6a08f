"""How fast a GPU computes in one precision beside fp32: by its name, else by its architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sightline.roofline.hardware import FLOP_PER_CLOCK, find_gpu

# Which architecture a compute capability is, where the device's name is not in the table. 8.6 and
# 8.9 come in two kinds that differ in their tensor cores: this is the slower one.
ARCHITECTURES = {
    "7.0": "volta",
    "7.5": "turing",
    "8.0": "ampere",
    "8.6": "ampere-gaming",
    "8.9": "ada-gaming",
    "9.0": "hopper",
    "10.0": "blackwell",
    "10.3": "blackwell-ultra",
    "12.0": "blackwell-gaming",
}
# Before Volta: results per clock of a multiprocessor, fp32 over fp64 (CUDA C++ Programming Guide
# 12.9, "Throughput of Native Arithmetic Instructions"). Such GPUs have no tensor cores.
_FP64_BEFORE_VOLTA = {"5.0": 32, "5.2": 32, "5.3": 32, "6.0": 2, "6.1": 32, "6.2": 32}


def find_bandwidth(device: Mapping[str, Any]) -> float | None:
    """The memory's rate of a row of `devices`, bytes/s: as the recording states it, else printed.

    Cards of one name have different memories: what is stated is this one's.
    """
    if stated := device.get("memory_bandwidth_bytes_per_s"):
        return float(stated)
    gpu = find_gpu(device.get("name"), device.get("memory_bytes"))
    return gpu.number("memory_bandwidth") if gpu else None


def compare_rates(device: Mapping[str, Any]) -> dict[str, float]:
    """Peaks of a row of `devices` over its peak in fp32, by precision; empty where not known.

    Of a GPU of the table as printed, and what is not printed by its architecture.
    """
    capability = device.get("compute_capability") or ""
    gpu = find_gpu(device.get("name"), device.get("memory_bytes"))
    architecture = (gpu and gpu.text("architecture")) or ARCHITECTURES.get(capability)
    by_clock = FLOP_PER_CLOCK.get(architecture or "", {})
    if not by_clock and capability in _FP64_BEFORE_VOLTA:
        return {"fp64": 1 / _FP64_BEFORE_VOLTA[capability], "fp32": 1.0}
    rates = {p: rate / by_clock["fp32"] for p, rate in by_clock.items()} if by_clock else {}
    printed = {} if gpu is None else gpu.peaks()
    if "fp32" in printed:
        rates |= {p: peak / printed["fp32"] for p, peak in printed.items()}
    return rates
