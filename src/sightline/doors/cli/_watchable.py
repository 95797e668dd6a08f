"""What can be watched on this machine, for the doctor."""

from __future__ import annotations

from sightline.record.collect.backend import Way

_WHAT = {
    "nvml": "NVIDIA GPUs (NVML)",
    "dcgm": "true use before Hopper (dcgmi)",
    "amd": "AMD GPUs (amdgpu's sysfs)",
    "intel": "Intel GPUs (xpu-smi)",
    "host": "CPUs, memory, disks, network",
    "links": "InfiniBand and RoCE ports",
    "rapl": "energy of CPUs (RAPL)",
}


def list_watchable() -> list[Way]:
    """Each source of readings, with the reason why it cannot be read."""
    from sightline.record.monitor.sources import open_sources

    ways = []
    for name, source, why in open_sources():
        count = len(source.list_devices()) if source is not None else 0
        if source is not None:
            source.close()
        told = f"{count} GPUs" if count > 1 else "1 GPU" if count else "ready"
        ways.append(Way(_WHAT[name], source is not None, told if source is not None else why))
    return ways
