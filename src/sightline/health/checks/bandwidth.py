"""Bandwidth that nvbandwidth measured, against what such a GPU must reach."""

from __future__ import annotations

from functools import cache

from sightline.core.packaged_rows import read_rows
from sightline.health.check import MEDIUM, UNCHECKED, Check, Verdict, fail
from sightline.health.node import Gpu

_SOURCE = "Azure NHC's configurations of A100, H100 and H200 nodes (checks/bandwidth.tsv)"


@cache
def _list_thresholds() -> tuple[tuple[str, float | None, float | None], ...]:
    """Part of the product's name, GB/s to and from the host, GB/s from a peer."""
    return tuple(
        (name, None if host == "-" else float(host), None if peer == "-" else float(peer))
        for name, host, peer, _ in read_rows("sightline.health.checks", "bandwidth.tsv")
    )


def _judge_host(gpu: Gpu) -> Verdict | None:
    least = next((host for name, host, _ in _list_thresholds() if name in gpu.name), None)
    if least is None:
        return Verdict(UNCHECKED, f"no threshold is known for {gpu.name}")
    ways = {"to it": gpu.values["host_to_device"], "from it": gpu.values["device_to_host"]}
    slow = [f"{value:.1f} GB/s {way}" for way, value in ways.items() if value < least]
    return fail(f"{', '.join(slow)}; {least:.0f} are expected") if slow else None


def _judge_peers(gpu: Gpu) -> Verdict | None:
    least = next((peer for name, _, peer in _list_thresholds() if name in gpu.name), None)
    if least is None:
        return Verdict(UNCHECKED, f"no threshold is known for {gpu.name}")
    value = gpu.values["peer_bandwidth"]
    if value >= least:
        return None
    return fail(f"{value:.1f} GB/s from its slowest peer; {least:.0f} are expected")


CHECKS = (
    Check(
        "host-bandwidth",
        "copies between pinned host memory and the GPU",
        "less than the product reaches",
        _SOURCE,
        "check PCIe lanes and generation, and that the process runs on the GPU's NUMA node",
        ("host_to_device", "device_to_host"),
        _judge_host,
        level=MEDIUM,
    ),
    Check(
        "peer-bandwidth",
        "copies between GPUs",
        "less than the product reaches, from the slowest peer",
        _SOURCE,
        "check NVLinks, fabric manager and IOMMU (ACS turned off)",
        ("peer_bandwidth",),
        _judge_peers,
        level=MEDIUM,
    ),
)
