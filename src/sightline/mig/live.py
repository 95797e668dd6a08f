"""The GPUs of this machine, with the sizes of their profiles as NVML knows them.

What NVML says wins over the table: boards of one PCI device id differ in SMs and memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from sightline.mig.models import Model, Size, find_by_pci
from sightline.record.nvml.library import Unavailable, connect_nvml, find_gpus


class OwnGpu(NamedTuple):
    """A GPU with MIG: its NVML index, and its model with real sizes where NVML has them."""

    number: int
    model: Model


def list_own_gpus() -> list[OwnGpu]:
    """All GPUs of this machine that the table knows; none where NVML cannot be used."""
    try:
        nvml = connect_nvml()
    except Unavailable:
        return []
    found = []
    try:
        for gpu in find_gpus(nvml):
            if gpu.handle is None:
                continue
            try:
                model = find_by_pci(int(nvml.nvmlDeviceGetPciInfo(gpu.handle).pciDeviceId))
            except nvml.NVMLError:
                continue
            if model is not None:
                found.append(OwnGpu(gpu.number, _measure_model(nvml, gpu.handle, model)))
    except Unavailable:
        return []
    finally:
        nvml.nvmlShutdown()
    return found


def _measure_model(nvml: Any, handle: Any, model: Model) -> Model:
    """The model with NVML's SMs and memory of each profile, matched by its id."""
    by_id = {shape.gi: shape.key for shape in model.family.shapes if shape.gi is not None}
    sizes = dict(model.sizes)
    for profile in range(int(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT)):
        try:
            told = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, profile)
        except (nvml.NVMLError, AttributeError):  # not of this GPU, or an older driver
            continue
        key = by_id.get(int(told.id))
        if key in sizes and told.multiprocessorCount and told.memorySizeMB:
            name = sizes[key].name
            memory = int(told.memorySizeMB) << 20
            sizes[key] = Size(name, int(told.multiprocessorCount), memory, True, True)
    return model if sizes == model.sizes else replace(model, sizes=sizes, source="NVML here")
