"""What connects the ranks of a group: the links of one machine, or a network; and their peak."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.roofline.hardware import find_gpu
from sightline.roofline.rates import ARCHITECTURES

# Most machines hold eight GPUs, and their links end there.
MACHINE_RANKS = 8
MACHINE, NETWORK = "machine", "network"
# What copies of over 4 MB from pinned memory reach on sixteen lanes of PCI Express, bytes/s, by the
# generation that NVIDIA's white papers name for an architecture: the fastest of public recordings
# (RTX 2080 Ti and RTX 2060; L40S, and an RTX 4060 Ti's eight lanes; H100). They are 84, 85 and 91 %
# of what the lanes carry (15.75, 31.5 and 63 GB/s): most machines send packets of 128 bytes, which
# have some 24 of their own, the newest 256 (PCI Express Base Specification 4.0, transaction layer).
_REACHED = {3: 13.2e9, 4: 26.8e9, 5: 57.3e9}
GENERATIONS = {
    "pascal": 3,
    "pascal-gaming": 3,
    "volta": 3,
    "turing": 3,
    "turing-gaming": 3,
    "turing-plain": 3,
    "ampere": 4,
    "ampere-gaming": 4,
    "ampere-pro": 4,
    "ada-gaming": 4,
    "ada-pro": 4,
    "hopper": 5,
    "blackwell": 5,
    "blackwell-ultra": 5,
    "blackwell-gaming": 5,
}
# GPUs with eight lanes (NVIDIA's specifications of the RTX 4060, the RTX 2000 Ada and the A2; the
# chips GA107, AD106, AD107, GB206 and GB207 have no more), and those of notebooks with four.
_EIGHT = re.compile(
    r"RTX (?:2050|3050|4050|4060|5050|5060)\b|RTX (?:4070|5070) Laptop|RTX 2000 Ada|\bA2$"
)
_FOUR = re.compile(r"\bMX\d{3}\b")
# Of older GPUs (CUDA C++ Programming Guide, "Compute Capabilities"), which all have the third.
_OLD = ("3.", "5.", "6.")
# GPUs that reach the processor's memory by NVLink: these links are faster.
_COHERENT = re.compile(r"GH200|GB[23]00|Tegra|Orin|Thor|Spark|GB10", re.IGNORECASE)


def find_link(run: Run) -> float | None:
    """What a GPU's links to the others of its machine carry each way, bytes/s."""
    devices = run.table("devices").select("name", "memory_bytes")
    for name, memory in devices.iter_rows():
        gpu = find_gpu(name, memory)
        if gpu is not None:
            return gpu.number("link_bandwidth")
    return None


def find_host_link(device: Mapping[str, Any]) -> float | None:
    """What copies between a device (a row of `devices`) and its host reach at most, bytes/s.

    Each way; None where its generation is not known, or it is not a PCI Express.
    """
    name, capability = device.get("name") or "", device.get("compute_capability") or ""
    if _COHERENT.search(name):
        return None
    gpu = find_gpu(name, device.get("memory_bytes"))
    known = (gpu and gpu.text("architecture")) or ARCHITECTURES.get(capability) or ""
    generation = GENERATIONS.get(known, 3 if capability.startswith(_OLD) else None)
    if generation is None:
        return None
    part = 0.25 if _FOUR.search(name) else 0.5 if _EIGHT.search(name) else 1.0
    return _REACHED[generation] * part


def name_link(members: pl.Expr, group_size: pl.Expr) -> pl.Expr:
    """The slowest link between a group's ranks, as far as their numbers tell.

    Launchers number the ranks of a machine in a row: members are ranks as "0,1,8", or null.
    """
    machines = members.str.split(",").list.eval(pl.element().cast(pl.Int64) // MACHINE_RANKS)
    within = pl.when(members.is_not_null() & (members != "")).then(
        machines.list.min() == machines.list.max()
    )
    return (
        pl.when(within.fill_null(group_size <= MACHINE_RANKS))
        .then(pl.lit(MACHINE))
        .otherwise(pl.lit(NETWORK))
    )
