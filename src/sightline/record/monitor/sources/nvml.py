"""NVIDIA GPUs through NVML.

Functions, units and errors: NVML API reference (https://docs.nvidia.com/deploy/nvml-api/), field
values: nvml.h. True use (how many SMs, which pipes, how much of the memory's bandwidth) comes from
GPM, which the library has since Hopper, with no daemon and no exclusive counters, of each MIG
instance, too. Nothing on the GPU is changed.

A function that the GPU does not have is asked once. A device that fell off the bus is asked again
each half minute. PCIe throughput by nvmlDeviceGetPcieThroughput is not asked for: each call waits
for 20 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sightline.core.xids import describe_xid
from sightline.record.monitor.readings import (
    GPU,
    INSTANCE,
    PROCESS,
    Answer,
    Device,
    Entity,
    Event,
    Rates,
    Reading,
)
from sightline.record.monitor.sources import NoSource
from sightline.record.nvml.library import Unavailable, connect_nvml, find_gpus

_SECOND = 1_000_000_000
# Limits, errors and what is remapped change rarely; a lost device may come back.
_SLOW_NS = 30 * _SECOND
# Below this GPM's counters may not have moved (DCGM's issue 310, Hopper).
_GPM_LEAST_NS = _SECOND // 10
_KIB, _MIB = 1 << 10, 1 << 20
_XID_EVENT = 0x8  # nvmlEventTypeXidCriticalError
_NVLINK_SUM = 0xFFFFFFFF  # scope of a field: UINT_MAX is the sum of all links (nvml.h)


class _Call(NamedTuple):
    """A function of NVML with the metrics that its answer gives."""

    functions: tuple[str, ...]  # newest first; an older driver may have an older one only
    arguments: tuple[Any, ...]
    metrics: tuple[tuple[str, Callable[[Any], float]], ...]


def _one(metric: str, *functions: str, arguments: tuple[Any, ...] = (), scale: float = 1) -> _Call:
    return _Call(functions, arguments, ((metric, lambda v: v * scale),))


_MEMORY: tuple[tuple[str, Callable[[Any], float]], ...] = (
    ("memory used", lambda v: float(v.used)),
    ("memory free", lambda v: float(v.free)),
    ("memory total", lambda v: float(v.total)),
)
_MEMORY_V2 = 2 << 24 | 40  # nvmlMemory_v2 = structure's size | version << 24
# Older drivers: what is used has what the driver keeps in it.
_MEMORY_V1 = _Call(("nvmlDeviceGetMemoryInfo",), (), _MEMORY)
_EACH_ROUND = (
    _one("SM clock", "nvmlDeviceGetClockInfo", arguments=(1,)),
    _one("memory clock", "nvmlDeviceGetClockInfo", arguments=(2,)),
    _one(
        "clock event reasons",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ),
    _one("performance state", "nvmlDeviceGetPerformanceState"),
    _one("temperature", "nvmlDeviceGetTemperature", arguments=(0,)),
    _Call(
        ("nvmlDeviceGetMemoryInfo",),
        (_MEMORY_V2,),
        (*_MEMORY, ("memory reserved", lambda v: float(v.reserved))),
    ),
    _Call(
        ("nvmlDeviceGetUtilizationRates",),
        (),
        (
            ("GPU utilization", lambda v: float(v.gpu)),
            ("memory utilization", lambda v: float(v.memory)),
        ),
    ),
    _one("power", "nvmlDeviceGetPowerUsage", scale=1e-3),  # mW
    _one("power limit", "nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
)
_SLOWLY = (
    _one("fan speed", "nvmlDeviceGetFanSpeed"),
    _Call(("nvmlDeviceGetEncoderUtilization",), (), (("encoder utilization", lambda v: v[0]),)),
    _Call(("nvmlDeviceGetDecoderUtilization",), (), (("decoder utilization", lambda v: v[0]),)),
    _one("PCIe generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _one("PCIe width", "nvmlDeviceGetCurrPcieLinkWidth"),
    _one("PCIe replays", "nvmlDeviceGetPcieReplayCounter"),
    _Call(
        ("nvmlDeviceGetRemappedRows",),
        (),
        (
            ("rows remapped, corrected", lambda v: v[0]),
            ("rows remapped, uncorrected", lambda v: v[1]),
            ("row remap pending", lambda v: v[2]),
            ("row remap failure", lambda v: v[3]),
        ),
    ),
    _Call(
        ("nvmlDeviceGetGridLicensableFeatures",),
        (),
        (("vGPU license", lambda v: float(v.isGridLicenseSupported and _is_licensed(v))),),
    ),
)


class _Field(NamedTuple):
    """A field value of NVML (nvml.h), and the metric that it is, or is the count behind."""

    number: int
    scope: int
    metric: str
    scale: float = 1
    is_rate: bool = False


_FIELDS = (
    _Field(83, 0, "energy", 1e-3),  # mJ
    _Field(186, 0, "instantaneous power", 1e-3),  # mW
    _Field(82, 0, "memory temperature"),
    _Field(138, _NVLINK_SUM, "NVLink sent", _KIB, is_rate=True),
    _Field(139, _NVLINK_SUM, "NVLink received", _KIB, is_rate=True),
    _Field(74, 0, "clocks lowered by power"),
    _Field(75, 0, "clocks lowered by heat"),
    _Field(76, 0, "clocks lowered by sync boost"),
    _Field(77, 0, "clocks lowered by board limit"),
    _Field(78, 0, "clocks lowered by low utilization"),
    _Field(79, 0, "clocks lowered by reliability"),
)
_SLOW_FIELDS = (
    _Field(3, 0, "corrected ECC errors"),
    _Field(4, 0, "uncorrected ECC errors"),
    _Field(29, 0, "pages retired, corrected"),
    _Field(30, 0, "pages retired, uncorrected"),
    _Field(31, 0, "page retirement pending"),
    _Field(38, 0, "NVLink CRC errors"),
    _Field(52, 0, "NVLink replays"),
    _Field(230, 0, "recovery action"),
)
# Metrics of GPM (nvml.h, nvmlGpmMetricId_t): per cent, or MiB/s.
_GPM = (
    (1, "graphics active", 1.0),
    (2, "SM active", 1.0),
    (3, "SM occupancy", 1.0),
    (4, "integer active", 1.0),
    (5, "tensor active", 1.0),
    (6, "tensor DFMA active", 1.0),
    (7, "tensor HMMA active", 1.0),
    (8, "tensor DMMA active", 1.0),
    (9, "tensor IMMA active", 1.0),
    (10, "DRAM active", 1.0),
    (11, "FP64 active", 1.0),
    (12, "FP32 active", 1.0),
    (13, "FP16 active", 1.0),
    (20, "PCIe sent", float(_MIB)),
    (21, "PCIe received", float(_MIB)),
    (60, "NVLink received", float(_MIB)),
    (61, "NVLink sent", float(_MIB)),
)


def open_source(first_device: int = 0) -> NvmlSource:
    """NVML, initialized. Raises NoSource."""
    del first_device  # NVML numbers its devices, as nvidia-smi does
    try:
        return NvmlSource(connect_nvml())
    except Unavailable as error:
        raise NoSource(str(error)) from error


class _Gpm:
    """Two samples of a device or of a MIG instance, taken in turns, and what lies between them."""

    def __init__(self, nvml: Any, handle: Any, instance: int | None = None) -> None:
        self._nvml, self._handle, self._instance = nvml, handle, instance
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        self._asked = nvml.c_nvmlGpmMetricsGet_t()
        self._asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._asked.numMetrics = len(_GPM)
        for place, (number, _, _) in enumerate(_GPM):
            self._asked.metrics[place].metricId = number
        self._last_ns: int | None = None

    def read(self, steady_ns: int) -> dict[str, float]:
        """The metrics since the last call; nothing from the first one, or too soon after it."""
        if self._last_ns is not None and steady_ns - self._last_ns < _GPM_LEAST_NS:
            return {}
        before, after = self._samples
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._handle, after)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, after)
        self._samples = [after, before]
        first, self._last_ns = self._last_ns is None, steady_ns
        if first:
            return {}
        asked = self._asked
        asked.sample1, asked.sample2 = before, after
        self._nvml.nvmlGpmMetricsGet(asked)
        return {
            metric: asked.metrics[place].value * scale
            for place, (_, metric, scale) in enumerate(_GPM)
            if asked.metrics[place].nvmlReturn == 0 and asked.metrics[place].value >= 0
        }

    def forget(self) -> None:
        """After a failure the next sample is a first one."""
        self._last_ns = None

    def close(self) -> None:
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)


class _Gpu:
    """One device: its handle, what it refuses, and what is known of its parts."""

    def __init__(self, index: int, handle: Any) -> None:
        self.entity = Entity(GPU, index)
        self.handle = handle
        self.refused: dict[str, str] = {}  # metric: why
        self.unasked: set[Any] = set()  # calls and fields that are not made again
        self.lost_ns: int | None = None
        self.slow_ns: int | None = None
        self.gpm: _Gpm | None = None
        self.gpm_asked = False
        self.instances: list[tuple[Entity, Any, _Gpm | None]] = []
        self.energy = -1.0
        self.xid: float | None = None
        self.process_us = 0


class NvmlSource:
    """All devices that NVML shows."""

    name = "nvml"

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._rates = Rates()
        self._gpus: list[_Gpu] = []
        self._devices: list[Device] = []
        self._events: Any = None
        self._find_devices()

    def _find_devices(self) -> None:
        nvml = self._nvml
        driver = _text(self._try(nvml.nvmlSystemGetDriverVersion))
        for index, name, handle, problem in find_gpus(nvml):
            if problem is not None:  # lost before anybody looked
                self._devices.append(Device(index, "nvidia", "", driver=driver))
                continue
            gpu = _Gpu(index, handle)
            self._gpus.append(gpu)
            pci = self._try(nvml.nvmlDeviceGetPciInfo, handle)
            self._devices.append(
                Device(
                    index,
                    "nvidia",
                    name,
                    _text(self._try(nvml.nvmlDeviceGetUUID, handle)),
                    _text(getattr(pci, "busId", "")),
                    driver,
                )
            )
        self._events = self._watch_events()

    def _try(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _watch_events(self) -> Any:
        """XIDs as they come; None where the driver has no events."""
        nvml = self._nvml
        events = self._try(nvml.nvmlEventSetCreate)
        for gpu in self._gpus if events is not None else ():
            try:
                nvml.nvmlDeviceRegisterEvents(gpu.handle, _XID_EVENT, events)
            except nvml.NVMLError as error:
                gpu.refused["XID"] = str(error)
            else:
                gpu.xid = 0.0  # none since the watch began, as dcgm-exporter has it
        return events

    def list_devices(self) -> list[Device]:
        """All devices, with those that cannot be read."""
        return self._devices

    def close(self) -> None:
        """Give back what was allocated."""
        for gpu in self._gpus:
            for gpm in (gpu.gpm, *(part for _, _, part in gpu.instances)):
                if gpm is not None:
                    self._try(gpm.close)
        if self._events is not None:
            self._try(self._nvml.nvmlEventSetFree, self._events)
        self._try(self._nvml.nvmlShutdown)

    def read(self, wall_ns: int, steady_ns: int) -> Answer:
        """One round over all devices."""
        answer = Answer()
        self._read_xids(wall_ns, answer)
        for gpu in self._gpus:
            if gpu.lost_ns is not None and steady_ns - gpu.lost_ns < _SLOW_NS:
                answer.readings.append(_read_lost(gpu, wall_ns))
                continue
            try:
                self._read_gpu(gpu, wall_ns, steady_ns, answer)
            except self._nvml.NVMLError as error:
                self._lose(gpu, error, wall_ns, steady_ns, answer)
        return answer

    def _lose(self, gpu: _Gpu, error: Any, wall_ns: int, steady_ns: int, answer: Answer) -> None:
        """The device as a whole does not answer."""
        why = str(error)
        if gpu.lost_ns is None:
            text = f"it does not answer any more: {why}"
            answer.events.append(Event(wall_ns, "device-lost", gpu.entity, text))
        gpu.lost_ns, gpu.energy = steady_ns, -1.0
        gpu.refused["*"] = why
        for gpm in (gpu.gpm, *(part for _, _, part in gpu.instances)):
            if gpm is not None:
                gpm.forget()
        answer.readings.append(_read_lost(gpu, wall_ns))

    def _read_gpu(self, gpu: _Gpu, wall_ns: int, steady_ns: int, answer: Answer) -> None:
        reading = Reading(gpu.entity, wall_ns, {}, gpu.refused)
        is_slow = gpu.slow_ns is None or steady_ns - gpu.slow_ns >= _SLOW_NS
        for call in _EACH_ROUND + _SLOWLY if is_slow else _EACH_ROUND:
            self._call(gpu, call, gpu.handle, reading)
        if "memory used" not in reading.values:
            self._call(gpu, _MEMORY_V1, gpu.handle, reading)
        self._read_fields(gpu, _FIELDS + _SLOW_FIELDS if is_slow else _FIELDS, steady_ns, reading)
        if gpu.lost_ns is not None:
            gpu.lost_ns = None
            gpu.refused.pop("*", None)
            answer.events.append(Event(wall_ns, "device-back", gpu.entity, "it answers again"))
        if is_slow:
            gpu.slow_ns = steady_ns
            self._find_parts(gpu)
        self._read_gpm(gpu, steady_ns, reading)
        if gpu.xid is not None:
            reading.values["XID"] = gpu.xid
        energy = reading.values.get("energy")
        if energy is not None:
            if energy < gpu.energy:
                text = "the energy counter went back: the driver was reloaded"
                answer.events.append(Event(wall_ns, "counter-reset", gpu.entity, text))
            gpu.energy = energy
        _add_total(reading.values)
        answer.readings.append(reading)
        self._read_instances(gpu, wall_ns, steady_ns, answer)
        self._read_processes(gpu, wall_ns, answer)

    def _call(self, gpu: _Gpu, call: _Call, handle: Any, reading: Reading) -> None:
        """Raises NVMLError where the device is lost."""
        if call in gpu.unasked:
            return
        nvml = self._nvml
        for function in call.functions:
            try:
                told = getattr(nvml, function)(handle, *call.arguments)
                for metric, read in call.metrics:
                    reading.values[metric] = float(read(told))
            except nvml.NVMLError_FunctionNotFound:
                continue
            except nvml.NVMLError as error:
                self._refuse(gpu, call, [m for m, _ in call.metrics], error.value, str(error))
                return
            except AttributeError:  # this binding has no such function
                continue
            else:
                return
        why = "the driver is too old for it"
        self._refuse(gpu, call, [m for m, _ in call.metrics], nvml.NVML_ERROR_NOT_SUPPORTED, why)

    def _refuse(self, gpu: _Gpu, call: Any, metrics: list[str], code: int, why: str) -> None:
        """What is not to be had is not asked again; what fails now may do better next time."""
        nvml = self._nvml
        if code in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_UNINITIALIZED):
            raise nvml.NVMLError(code)
        if code in (
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_INVALID_ARGUMENT,  # of a field that this driver does not know
        ):
            gpu.unasked.add(call)
            for metric in metrics:
                gpu.refused.setdefault(metric, why)

    def _read_fields(
        self, gpu: _Gpu, fields: tuple[_Field, ...], steady_ns: int, reading: Reading
    ) -> None:
        asked = [field for field in fields if field not in gpu.unasked]
        nvml = self._nvml
        try:
            values = nvml.nvmlDeviceGetFieldValues(gpu.handle, [(f.number, f.scope) for f in asked])
        except nvml.NVMLError as error:
            self._refuse(gpu, None, [], error.value, str(error))
            return
        for field, value in zip(asked, values, strict=True):
            if value.nvmlReturn != nvml.NVML_SUCCESS:
                why = str(nvml.NVMLError(value.nvmlReturn))
                self._refuse(gpu, field, [field.metric], value.nvmlReturn, why)
                continue
            number = _read_union(value) * field.scale
            if field.is_rate:
                rate = self._rates.measure(gpu.entity, field.metric, steady_ns, number)
                if rate is not None:
                    reading.values[field.metric] = rate
            else:
                reading.values[field.metric] = number

    def _read_gpm(self, gpu: _Gpu, steady_ns: int, reading: Reading) -> None:
        nvml = self._nvml
        if not gpu.gpm_asked:
            gpu.gpm_asked = True
            support = self._try(nvml.nvmlGpmQueryDeviceSupport, gpu.handle)
            if support is not None and support.isSupportedDevice:
                gpu.gpm = self._try(_Gpm, nvml, gpu.handle)
            if gpu.gpm is None:
                gpu.refused["SM active"] = "SM activity from NVML needs a Hopper GPU or a later one"
        if gpu.gpm is not None:
            try:
                reading.values.update(gpu.gpm.read(steady_ns))
            except nvml.NVMLError as error:
                gpu.gpm.forget()
                # With MIG on, the whole device has no GPM: its instances have.
                self._refuse(gpu, None, [], error.value, str(error))

    def _find_parts(self, gpu: _Gpu) -> None:
        """The MIG instances that there are now."""
        nvml = self._nvml
        mode = self._try(nvml.nvmlDeviceGetMigMode, gpu.handle)
        known = {entity: (entity, handle, gpm) for entity, handle, gpm in gpu.instances}
        found = []
        for place in range(self._count_instances(gpu, mode)):
            handle = self._try(nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu.handle, place)
            number = self._try(nvml.nvmlDeviceGetGpuInstanceId, handle) if handle else None
            if number is None:
                continue
            entity = Entity(INSTANCE, gpu.entity.device_id, _name_instance(nvml, handle, number))
            if entity not in known:
                known[entity] = entity, handle, self._try(_Gpm, nvml, gpu.handle, number)
            found.append(known[entity])
        if [e for e, _, _ in found] != [e for e, _, _ in gpu.instances]:
            gpu.unasked.clear()  # what a device answers with MIG on is not what it does without
            for entity, _, gpm in gpu.instances:
                if gpm is not None and entity not in [e for e, _, _ in found]:
                    self._try(gpm.close)
        gpu.instances = found

    def _count_instances(self, gpu: _Gpu, mode: Any) -> int:
        is_on = bool(mode and mode[0])
        count = self._try(self._nvml.nvmlDeviceGetMaxMigDeviceCount, gpu.handle) if is_on else 0
        return int(count or 0)

    def _read_instances(self, gpu: _Gpu, wall_ns: int, steady_ns: int, answer: Answer) -> None:
        for entity, handle, gpm in gpu.instances:
            reading = Reading(entity, wall_ns)
            memory = self._try(self._nvml.nvmlDeviceGetMemoryInfo, handle)
            if memory is not None:
                reading.values.update({metric: read(memory) for metric, read in _MEMORY})
            if gpm is not None:
                try:
                    reading.values.update(gpm.read(steady_ns))
                except self._nvml.NVMLError as error:
                    gpm.forget()
                    reading.missing["SM active"] = str(error)
            answer.readings.append(reading)

    def _read_processes(self, gpu: _Gpu, wall_ns: int, answer: Answer) -> None:
        nvml = self._nvml
        found: dict[int, dict[str, float]] = {}
        for handle in [gpu.handle, *(handle for _, handle, _ in gpu.instances)]:
            for function in (
                nvml.nvmlDeviceGetComputeRunningProcesses,
                nvml.nvmlDeviceGetGraphicsRunningProcesses,
            ):
                for process in self._try(function, handle) or ():
                    values = found.setdefault(int(process.pid), {})
                    if process.usedGpuMemory is not None:
                        values["memory used"] = float(process.usedGpuMemory)
        for sample in (
            self._try(nvml.nvmlDeviceGetProcessUtilization, gpu.handle, gpu.process_us) or ()
        ):
            gpu.process_us = max(gpu.process_us, int(sample.timeStamp))
            if int(sample.pid) in found:
                found[int(sample.pid)]["GPU utilization"] = float(sample.smUtil)
        for pid, values in sorted(found.items()):
            entity = Entity(PROCESS, gpu.entity.device_id, f"process {pid}")
            answer.readings.append(Reading(entity, wall_ns, values))

    def _read_xids(self, wall_ns: int, answer: Answer) -> None:
        if self._events is None:
            return
        for _ in range(64):  # each XID that came since; no storm holds the round up
            told = self._try(self._nvml.nvmlEventSetWait, self._events, 0)
            if told is None:
                return
            gpu = next((g for g in self._gpus if _is_same(g.handle, told.device)), None)
            if gpu is not None and told.eventType == _XID_EVENT:
                gpu.xid = float(told.eventData)
                text = f"XID {told.eventData}: {describe_xid(told.eventData)}"
                answer.events.append(Event(wall_ns, "xid", gpu.entity, text))


def _read_lost(gpu: _Gpu, wall_ns: int) -> Reading:
    """No value but the last XID, which mostly says why; under "*" stands what NVML answers."""
    values = {} if gpu.xid is None else {"XID": gpu.xid}
    return Reading(gpu.entity, wall_ns, values, dict(gpu.refused))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _is_same(one: Any, other: Any) -> bool:
    """Whether two handles are of one device: pointers that ctypes makes anew."""
    import ctypes

    return ctypes.addressof(one.contents) == ctypes.addressof(other.contents)


def _is_licensed(features: Any) -> bool:
    count = features.licensableFeaturesCount
    return any(features.gridLicensableFeatures[n].featureEnabled for n in range(count))


def _read_union(value: Any) -> float:
    """A field's value by its type (nvml.h, nvmlValueType_t)."""
    union = value.value
    members = (union.dVal, union.uiVal, union.ulVal, union.ullVal, union.sllVal, union.siVal)
    return float(members[value.valueType]) if value.valueType < len(members) else 0.0


def _name_instance(nvml: Any, handle: Any, number: int) -> str:
    """As dcgm-exporter's label names it, with the profile: MIG 3 (1g.10gb)."""
    try:
        attributes = nvml.nvmlDeviceGetAttributes(handle)
    except (nvml.NVMLError, AttributeError):
        return f"MIG {number}"
    slices = attributes.gpuInstanceSliceCount
    gigabytes = round(attributes.memorySizeMB / 1024)
    return f"MIG {number} ({slices}g.{gigabytes}gb)"


def _add_total(values: dict[str, float]) -> None:
    sent, received = values.get("NVLink sent"), values.get("NVLink received")
    if sent is not None and received is not None:
        values["NVLink total"] = sent + received
