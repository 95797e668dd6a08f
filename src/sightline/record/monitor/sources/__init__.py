"""The places that are read.

Each module has `open_source(first_device)`: a `Source`, or NoSource with the reason. Devices of a
vendor that does not number them count from `first_device`.

    nvml     NVIDIA's GPUs by its management library, with the true use (GPM) since Hopper
    dcgm     what `dcgmi dmon` prints, for the true use of NVIDIA's GPUs before Hopper
    amd      AMD's GPUs by what the driver amdgpu shows in sysfs
    intel    Intel's GPUs by what `xpu-smi dump` prints
    host     CPUs, memory, disks, network, by psutil
    links    InfiniBand and RoCE ports by sysfs
    rapl     energy of CPUs and their memory by sysfs
    cpu      CPUs by hardware thread and socket, by `perf stat`; only where it is named
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from sightline.record.monitor.readings import Source

_ORDER = ("dcgm", "nvml", "amd", "intel", "host", "links", "rapl", "cpu")
_NAMED = ("cpu",)  # it takes counters that others may want, and has hundreds of readings


class NoSource(Exception):
    """A place cannot be read here; the text says why, and what to do."""


_OF_GPUS = ("nvml", "dcgm", "amd", "intel")


class Found(NamedTuple):
    """A source by name, or why there is none."""

    name: str
    source: Source | None
    why: str


def list_sources() -> list[str]:
    """The names of all sources, in the order in which they are read."""
    return list(_ORDER)


def list_usual() -> list[str]:
    """The names of those that are read where none is named."""
    return [name for name in _ORDER if name not in _NAMED]


def open_sources(names: list[str] | None = None) -> list[Found]:
    """Every source that is here, or those named; for the others why not."""
    found: list[Found] = []
    numbered = 0
    # Where two read the same device, what the later one says counts: NVML's.
    for name in list_usual() if names is None else sorted(names, key=_ORDER.index):
        module = importlib.import_module(f"{__name__}.{name}")
        try:
            source: Source = module.open_source(numbered)
        except NoSource as error:
            found.append(Found(name, None, str(error)))
            continue
        numbered = max([numbered, *(d.device_id + 1 for d in source.list_devices())])
        found.append(Found(name, source, (module.__doc__ or "").splitlines()[0].rstrip(".")))
    return found


def explain_no_gpu(found: list[Found]) -> list[str]:
    """Why no GPU is read, a line for each place that could have one."""
    told = {place.name: place.why for place in found if place.source is None}
    return [f"  {name}: {told[name]}" for name in _OF_GPUS if name in told]
