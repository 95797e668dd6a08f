"""NVIDIA GPUs through NVML, by the names that the checks use.

Functions and field values: nvml.h. What a GPU does not have is missing with NVML's reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sightline.health.node import Gpu, Node
from sightline.record.nvml.library import Unavailable, connect_nvml, find_gpus


class _Call(NamedTuple):
    function: str
    arguments: tuple[Any, ...]
    facts: tuple[tuple[str, Callable[[Any], float]], ...]


def _one(fact: str, function: str, *arguments: Any, scale: float = 1.0) -> _Call:
    return _Call(function, arguments, ((fact, lambda value: float(value) * scale),))


def _pair(first: str, second: str, function: str) -> _Call:
    return _Call(function, (), ((first, lambda v: float(v[0])), (second, lambda v: float(v[1]))))


_CALLS = (
    _one("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
    _one("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
    _one("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _one("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
    _one("temperature", "nvmlDeviceGetTemperature", 0),
    _one("clock_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    _one("power_limit", "nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
    _one("power_limit_default", "nvmlDeviceGetPowerManagementDefaultLimit", scale=1e-3),
    _one("persistence", "nvmlDeviceGetPersistenceMode"),
    _pair("ecc_mode", "ecc_mode_pending", "nvmlDeviceGetEccMode"),
    _pair("mig_mode", "mig_mode_pending", "nvmlDeviceGetMigMode"),
    _Call("nvmlDeviceGetMemoryInfo", (), (("memory_used", lambda v: float(v.used)),)),
    _Call("nvmlDeviceGetUtilizationRates", (), (("utilization", lambda v: float(v.gpu)),)),
    _Call(
        "nvmlDeviceGetRemappedRows",
        (),
        (
            ("rows_corrected", lambda v: float(v[0])),
            ("rows_uncorrected", lambda v: float(v[1])),
            ("remap_pending", lambda v: float(v[2])),
            ("remap_failure", lambda v: float(v[3])),
        ),
    ),
)
_FIELDS = (
    ("recovery_action", 230),
    ("ecc_corrected", 3),
    ("ecc_uncorrected", 4),
    ("pages_corrected", 29),
    ("pages_uncorrected", 30),
    ("page_pending", 31),
    ("nvlink_recoveries", 59),
)
_MOST_LINKS = 18  # NVML_NVLINK_MAX_LINKS
_MOST_INSTANCES = 8


def read_nvml(node: Node) -> None:
    """The GPUs that NVML shows, into the node; why not, where it does not start."""
    try:
        nvml = connect_nvml()
        found = find_gpus(nvml)
    except Unavailable as error:
        node.missing["gpus"] = str(error)
        node.missing["driver (NVML)"] = node.missing["CUDA of the driver"] = str(error)
        return
    try:
        node.values["gpus by NVML"] = float(len(found))
        _read_text(nvml, node, "driver (NVML)", "nvmlSystemGetDriverVersion")
        _read_cuda(nvml, node)
        for number, name, handle, problem in found:
            gpu = Gpu(number, name, lost=problem)
            node.gpus.append(gpu)
            if handle is not None:
                _read_gpu(nvml, gpu, handle)
    finally:
        nvml.nvmlShutdown()


def _read_text(nvml: Any, node: Node, fact: str, function: str) -> None:
    try:
        node.texts[fact] = _text(getattr(nvml, function)())
    except (nvml.NVMLError, AttributeError) as error:
        node.missing[fact] = str(error)


def _read_cuda(nvml: Any, node: Node) -> None:
    """The newest CUDA that the driver runs, as 12.9: NVML has 12090."""
    try:
        number = int(nvml.nvmlSystemGetCudaDriverVersion())
    except (nvml.NVMLError, AttributeError) as error:
        node.missing["CUDA of the driver"] = str(error)
    else:
        node.texts["CUDA of the driver"] = f"{number // 1000}.{number % 1000 // 10}"


def _read_gpu(nvml: Any, gpu: Gpu, handle: Any) -> None:
    for call in _CALLS:
        names = [fact for fact, _ in call.facts]
        try:
            told = getattr(nvml, call.function)(handle, *call.arguments)
            for fact, read in call.facts:
                gpu.values[fact] = read(told)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
                gpu.lost = str(error)
                gpu.values.clear()
                return
            gpu.missing.update(dict.fromkeys(names, str(error)))
        except AttributeError:
            gpu.missing.update(dict.fromkeys(names, "this binding of NVML has no such function"))
    gpu.uuid = _text(_try(nvml, nvml.nvmlDeviceGetUUID, handle))
    gpu.pci = _text(getattr(_try(nvml, nvml.nvmlDeviceGetPciInfo, handle), "busId", ""))
    _read_fields(nvml, gpu, handle)
    _read_links(nvml, gpu, handle)
    _read_instances(nvml, gpu, handle)
    processes = _try(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    if processes is None:
        gpu.missing["processes"] = "NVML does not list the processes"
    else:
        gpu.processes = [int(process.pid) for process in processes]
        gpu.values["processes"] = float(len(processes))


def _read_fields(nvml: Any, gpu: Gpu, handle: Any) -> None:
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, [number for _, number in _FIELDS])
    except (nvml.NVMLError, AttributeError) as error:
        gpu.missing.update({fact: str(error) for fact, _ in _FIELDS})
        return
    for (fact, _), value in zip(_FIELDS, values, strict=True):
        if value.nvmlReturn != nvml.NVML_SUCCESS:
            gpu.missing[fact] = str(nvml.NVMLError(value.nvmlReturn))
            continue
        union = value.value
        members = (union.dVal, union.uiVal, union.ulVal, union.ullVal, union.sllVal, union.siVal)
        gpu.values[fact] = float(members[value.valueType])


def _read_links(nvml: Any, gpu: Gpu, handle: Any) -> None:
    states = []
    for link in range(_MOST_LINKS):
        try:
            states.append(int(nvml.nvmlDeviceGetNvLinkState(handle, link)))
        except nvml.NVMLError as error:  # there are no more links, or none
            gpu.missing["nvlinks_up"] = str(error)
            break
    if states:
        gpu.values["nvlinks"], gpu.values["nvlinks_up"] = float(len(states)), float(sum(states))


def _read_instances(nvml: Any, gpu: Gpu, handle: Any) -> None:
    if not gpu.values.get("mig_mode"):
        return
    for number in range(_MOST_INSTANCES):
        instance = _try(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if instance is not None:
            gpu.instances.append(_text(_try(nvml, nvml.nvmlDeviceGetUUID, instance)))


def _try(nvml: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
