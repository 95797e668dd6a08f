"""The fake NVML through NVIDIA's own binding: each function once, then what scenarios can do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml as n
import pytest

from support import fake_nvml as fake
from support.fake_nvml.machines import GPM, MIB
from support.fake_nvml.scenario import ALL_INSTANCES, NO_PERMISSION

MACHINE = fake.make_eight()
MACHINE.devices[0].values |= {
    "FanSpeed": 31, "FanSpeed_v2/0": 31, "NumFans": 1, "ApplicationsClock/1": 1830,
    "DefaultApplicationsClock/1": 1980, "ViolationStatus/0": 12_345, "RetiredPages/0": 2,
    "RemappedRows.corrected": 3, "RemappedRows.uncorrected": 1, "RemappedRows.pending": 1,
    "TotalEccErrors/0/1": 7, "MemoryErrorCounter/1/0/2": 9, "CurrentClocksEventReasons": 0x4,
}  # fmt: skip
MACHINE.devices[0].processes += [
    fake.Process(4242, 60 << 30, sm=93, memory=40, encoder=1, decoder=2),
    fake.Process(77, None, is_graphics=True),
]
fake.make_instance(MACHINE.devices[7], 5, 3, 71_680)
fake.make_instance(MACHINE.devices[7], 9, 2, 35_840)


@pytest.fixture
def clock(nvml_library: Path, tmp_path: Path) -> Iterator[fake.Clock]:
    with fake.use_scenario(MACHINE, nvml_library, tmp_path) as clock:
        n.nvmlInit()
        yield clock


def gpu(index: int = 0) -> Any:
    return n.nvmlDeviceGetHandleByIndex(index)


def mig(index: int = 0) -> Any:
    return n.nvmlDeviceGetMigDeviceHandleByIndex(gpu(7), index)


def parts(structure: Any, *names: str) -> list[Any]:
    return [getattr(structure, name) for name in names]


ANSWERS: list[tuple[Callable[[], Any], Any]] = [
    (n.nvmlSystemGetDriverVersion, "575.57.08"),
    (n.nvmlSystemGetNVMLVersion, "12.575.57.08"),
    (n.nvmlSystemGetCudaDriverVersion, 12090),
    (n.nvmlSystemGetCudaDriverVersion_v2, 12090),
    (lambda: n.nvmlErrorString(15), "GPU is lost"),
    (n.nvmlDeviceGetCount, 8),
    (lambda: n.nvmlDeviceGetName(gpu()), "NVIDIA H200"),
    (lambda: n.nvmlDeviceGetUUID(gpu(3)), "GPU-00000000-0000-0000-0000-000000000003"),
    (lambda: n.nvmlDeviceGetSerial(gpu(2)), "1650024000002"),
    (lambda: n.nvmlDeviceGetIndex(gpu(5)), 5),
    (lambda: n.nvmlDeviceGetMinorNumber(gpu(5)), 5),
    (lambda: n.nvmlDeviceGetIndex(
        n.nvmlDeviceGetHandleByUUID(b"GPU-00000000-0000-0000-0000-000000000004")), 4),
    (lambda: n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(b"0000:16:00.0")), 6),
    (lambda: parts(n.nvmlDeviceGetPciInfo(gpu(6)), "busId", "busIdLegacy", "bus", "pciDeviceId"),
     ["00000000:16:00.0", "0000:16:00.0", 0x16, 0x233510DE]),
    (lambda: n.nvmlDeviceGetBrand(gpu()), n.NVML_BRAND_NVIDIA),
    (lambda: n.nvmlDeviceGetArchitecture(gpu()), n.NVML_DEVICE_ARCH_HOPPER),
    (lambda: n.nvmlDeviceGetCudaComputeCapability(gpu()), (9, 0)),
    (lambda: n.nvmlDeviceGetNumGpuCores(gpu()), 16896),
    (lambda: n.nvmlDeviceGetMemoryBusWidth(gpu()), 6144),
    (lambda: n.nvmlDeviceGetPersistenceMode(gpu()), 1),
    (lambda: n.nvmlDeviceGetComputeMode(gpu()), 0),
    (lambda: parts(n.nvmlDeviceGetUtilizationRates(gpu()), "gpu", "memory"), [100, 47]),
    (lambda: parts(n.nvmlDeviceGetMemoryInfo(gpu()), "total", "free", "used"),
     [143_771 * MIB, (143_771 - 61_440 - 615) * MIB, (61_440 + 615) * MIB]),
    (lambda: parts(n.nvmlDeviceGetMemoryInfo(gpu(), n.nvmlMemory_v2),
                   "total", "reserved", "free", "used"),
     [143_771 * MIB, 615 * MIB, (143_771 - 61_440 - 615) * MIB, 61_440 * MIB]),
    (lambda: parts(n.nvmlDeviceGetBAR1MemoryInfo(gpu()), "bar1Total", "bar1Used"),
     [262_144 * MIB, MIB]),
    (lambda: n.nvmlDeviceGetTemperature(gpu(4), n.NVML_TEMPERATURE_GPU), 59),
    (lambda: n.nvmlDeviceGetTemperatureV(gpu(4), n.NVML_TEMPERATURE_GPU), 59),
    (lambda: n.nvmlDeviceGetTemperatureThreshold(gpu(), n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
     89),
    (lambda: n.nvmlDeviceGetFanSpeed(gpu()), 31),
    (lambda: n.nvmlDeviceGetFanSpeed_v2(gpu(), 0), 31),
    (lambda: n.nvmlDeviceGetNumFans(gpu()), 1),
    (lambda: n.nvmlDeviceGetPowerUsage(gpu(7)), 670_000),
    (lambda: n.nvmlDeviceGetPowerManagementMode(gpu()), 1),
    (lambda: n.nvmlDeviceGetPowerManagementLimit(gpu()), 700_000),
    (lambda: n.nvmlDeviceGetPowerManagementDefaultLimit(gpu()), 700_000),
    (lambda: n.nvmlDeviceGetEnforcedPowerLimit(gpu()), 700_000),
    (lambda: n.nvmlDeviceGetPowerManagementLimitConstraints(gpu()), [200_000, 700_000]),
    (lambda: n.nvmlDeviceGetTotalEnergyConsumption(gpu(1)), 6_100_000),  # 10 s at 610 W, in mJ
    (lambda: n.nvmlDeviceGetClockInfo(gpu(), n.NVML_CLOCK_SM), 1965),
    (lambda: n.nvmlDeviceGetMaxClockInfo(gpu(), n.NVML_CLOCK_MEM), 3201),
    (lambda: n.nvmlDeviceGetClock(gpu(), n.NVML_CLOCK_SM, n.NVML_CLOCK_ID_CURRENT), 1965),
    (lambda: n.nvmlDeviceGetApplicationsClock(gpu(), n.NVML_CLOCK_SM), 1830),
    (lambda: n.nvmlDeviceGetDefaultApplicationsClock(gpu(), n.NVML_CLOCK_SM), 1980),
    (lambda: n.nvmlDeviceGetCurrentClocksEventReasons(gpu()), n.nvmlClocksEventReasonSwPowerCap),
    (lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(gpu()), 0x4),
    (lambda: n.nvmlDeviceGetSupportedClocksEventReasons(gpu()), 0x1FF),
    (lambda: n.nvmlDeviceGetSupportedClocksThrottleReasons(gpu()), 0x1FF),
    (lambda: parts(n.nvmlDeviceGetViolationStatus(gpu(), n.NVML_PERF_POLICY_POWER),
                   "referenceTime", "violationTime"), [1_750_000_010_000_000, 12_345]),
    (lambda: n.nvmlDeviceGetPerformanceState(gpu()), 0),
    (lambda: n.nvmlDeviceGetPowerState(gpu()), 0),
    (lambda: n.nvmlDeviceGetPcieThroughput(gpu(), n.NVML_PCIE_UTIL_TX_BYTES), 870_400),
    (lambda: n.nvmlDeviceGetPcieThroughput(gpu(), n.NVML_PCIE_UTIL_RX_BYTES), 1_228_800),
    (lambda: n.nvmlDeviceGetCurrPcieLinkGeneration(gpu()), 5),
    (lambda: n.nvmlDeviceGetMaxPcieLinkGeneration(gpu()), 5),
    (lambda: n.nvmlDeviceGetCurrPcieLinkWidth(gpu()), 16),
    (lambda: n.nvmlDeviceGetMaxPcieLinkWidth(gpu()), 16),
    (lambda: n.nvmlDeviceGetPcieReplayCounter(gpu()), 0),
    (lambda: n.nvmlDeviceGetNvLinkState(gpu(), 17), 1),
    (lambda: n.nvmlDeviceGetEncoderUtilization(gpu()), [0, 167_000]),
    (lambda: n.nvmlDeviceGetDecoderUtilization(gpu()), [0, 167_000]),
    (lambda: n.nvmlDeviceGetJpgUtilization(gpu()), [0, 167_000]),
    (lambda: n.nvmlDeviceGetOfaUtilization(gpu()), [0, 167_000]),
    (lambda: n.nvmlDeviceGetEccMode(gpu()), [1, 1]),
    (lambda: n.nvmlDeviceGetTotalEccErrors(
        gpu(), n.NVML_MEMORY_ERROR_TYPE_CORRECTED, n.NVML_AGGREGATE_ECC), 7),
    (lambda: n.nvmlDeviceGetMemoryErrorCounter(
        gpu(), n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC,
        n.NVML_MEMORY_LOCATION_DEVICE_MEMORY), 9),
    (lambda: n.nvmlDeviceGetRemappedRows(gpu()), (3, 1, 1, 0)),
    (lambda: n.nvmlDeviceGetRetiredPages(gpu(), 0), [0x10000, 0x20000]),
    (lambda: [p["timestamp"] for p in n.nvmlDeviceGetRetiredPages_v2(gpu(), 0)],
     [1_750_000_000_000_000] * 2),
    (lambda: n.nvmlDeviceGetRetiredPagesPendingStatus(gpu()), 0),
    (lambda: [parts(p, "pid", "usedGpuMemory", "gpuInstanceId")
              for p in n.nvmlDeviceGetComputeRunningProcesses(gpu())],
     [[4242, 60 << 30, ALL_INSTANCES]]),
    (lambda: [parts(p, "pid", "usedGpuMemory")
              for p in n.nvmlDeviceGetGraphicsRunningProcesses(gpu())], [[77, None]]),
    (lambda: [parts(p, "pid", "timeStamp", "smUtil", "memUtil", "encUtil", "decUtil")
              for p in n.nvmlDeviceGetProcessUtilization(gpu(), 0)][:1],
     [[4242, 1_750_000_010_000_000, 93, 40, 1, 2]]),
    (lambda: n.nvmlDeviceGetMigMode(gpu(7)), [1, 1]),
    (lambda: n.nvmlDeviceGetMaxMigDeviceCount(gpu(7)), 7),
    (lambda: n.nvmlDeviceGetName(mig()), "NVIDIA H200 MIG 3g.71gb"),
    (lambda: n.nvmlDeviceGetUUID(mig(1)), "MIG-00000002-0000-0000-0000-000000000007"),
    (lambda: n.nvmlDeviceIsMigDeviceHandle(mig()).value, 1),
    (lambda: n.nvmlDeviceIsMigDeviceHandle(gpu(7)).value, 0),
    (lambda: n.nvmlDeviceGetIndex(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig())), 7),
    (lambda: n.nvmlDeviceGetGpuInstanceId(mig(1)), 9),
    (lambda: n.nvmlDeviceGetComputeInstanceId(mig(1)), 0),
    (lambda: parts(n.nvmlDeviceGetAttributes(mig()), "multiprocessorCount",
                   "gpuInstanceSliceCount", "memorySizeMB"), [48, 3, 71_680]),
    (lambda: n.nvmlDeviceGetSupportedEventTypes(gpu()), 11),
    (lambda: n.nvmlGpmQueryDeviceSupport(gpu()).isSupportedDevice, 1),
]  # fmt: skip


def test_each_function_answers_as_nvidia_ml_py_reads_it(clock):
    clock.set(10)
    for place, (call, expected) in enumerate(ANSWERS):
        assert call() == expected, f"answer {place} differs"


def read_gpm(first: Any, second: Any, numbers: list[int]) -> list[float | None]:
    wanted = n.c_nvmlGpmMetricsGet_t()
    wanted.version, wanted.numMetrics = n.NVML_GPM_METRICS_GET_VERSION, len(numbers)
    wanted.sample1, wanted.sample2 = first, second
    for place, number in enumerate(numbers):
        wanted.metrics[place].metricId = number
    found = n.nvmlGpmMetricsGet(wanted).metrics
    return [None if m.nvmlReturn else m.value for m in found[: len(numbers)]]


def test_gpm_gives_means_between_samples_of_gpus_and_of_instances(clock):
    numbers = [*GPM, 400]
    samples = [n.nvmlGpmSampleAlloc() for _ in range(4)]
    clock.set(20)
    n.nvmlGpmSampleGet(gpu(), samples[0])
    n.nvmlGpmMigSampleGet(gpu(7), 9, samples[2])
    clock.move(1)
    n.nvmlGpmSampleGet(gpu(), samples[1])
    n.nvmlGpmMigSampleGet(gpu(7), 9, samples[3])
    assert read_gpm(samples[0], samples[1], numbers) == [*GPM.values(), None]
    assert read_gpm(samples[2], samples[3], numbers) == [*(v / 2 for v in GPM.values()), None]
    assert read_gpm(samples[1], samples[1], [2]) == [None]  # no time between them
    with pytest.raises(n.NVMLError_InvalidArgument):
        read_gpm(samples[1], samples[2], [2])  # of two devices
    for sample in samples:
        n.nvmlGpmSampleFree(sample)


def test_field_values_have_their_types_times_and_codes(clock):
    clock.set(2)
    asked = [83, 186, (138, ALL_INSTANCES), 5000]
    energy, power, sent, unknown = n.nvmlDeviceGetFieldValues(gpu(1), asked)
    assert (energy.valueType, energy.value.ullVal) == (3, 1_220_000)
    assert (power.valueType, power.value.uiVal) == (1, 610_000)
    assert sent.value.ullVal == 2 * 45_000 * 1024
    assert (unknown.nvmlReturn, energy.nvmlReturn) == (n.NVML_ERROR_NOT_SUPPORTED, 0)
    assert energy.timestamp == 1_750_000_002_000_000


def one_gpu(**values: float | fake.Values) -> fake.Device:
    device = fake.make_h200()
    device.values |= values
    return device


def test_values_step_ramp_and_fall_back_when_the_driver_is_reset(nvml_library, tmp_path):
    power = fake.steps((0, 100.0), (10, 400.0), (20, 50.0))
    device = fake.make_h200(power_w=power)
    heat = fake.ramp((0, 30), (10, 80), (10, 40))
    active = fake.ramp((0, 0), (10, 100))
    device.values |= {
        "Temperature/0": heat,
        "Gpm/2": active,
        "TotalEnergyConsumption": fake.accumulate(
            fake.Values(tuple((t, w * 1000) for t, w in power.points)), 60, resets=[15]
        ),
    }
    with fake.use_scenario(fake.Scenario([device]), nvml_library, tmp_path) as clock:
        n.nvmlInit()
        first, second = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
        seen = []
        for second_s in (0, 5, 10, 14, 15, 25):
            clock.set(second_s)
            seen.append(
                (
                    n.nvmlDeviceGetPowerUsage(gpu()),
                    n.nvmlDeviceGetTemperature(gpu(), 0),
                    n.nvmlDeviceGetTotalEnergyConsumption(gpu()),
                )
            )
        assert seen == [
            (100_000, 30, 0),
            (100_000, 55, 500_000),
            (400_000, 40, 1_000_000),
            (400_000, 40, 2_600_000),
            (400_000, 40, 0),
            (50_000, 40, 2_250_000),  # 5 s at 400 W and 5 s at 50 W
        ]
        clock.set(4)
        n.nvmlGpmSampleGet(gpu(), first)
        clock.set(12)
        n.nvmlGpmSampleGet(gpu(), second)
        # 40 % to 100 % over 6 s, then 2 s at 100 %.
        assert read_gpm(first, second, [2]) == [pytest.approx((70 * 6 + 100 * 2) / 8)]


def test_xids_come_in_order_and_a_lost_gpu_says_so(nvml_library, tmp_path):
    lost, other = fake.make_h200(0), fake.make_h200(1)
    lost.lose(30)
    other.events += [fake.Event(20, 31), fake.Event(10, 94, gpu_instance=5, compute_instance=0)]
    with fake.use_scenario(fake.Scenario([lost, other]), nvml_library, tmp_path) as clock:
        n.nvmlInit()
        clock.set(5)
        handles, events = [gpu(0), gpu(1)], n.nvmlEventSetCreate()
        for handle in handles:
            n.nvmlDeviceRegisterEvents(handle, n.nvmlEventTypeXidCriticalError, events)
        with pytest.raises(n.NVMLError_Timeout):
            n.nvmlEventSetWait(events, 1)
        clock.set(31)
        came = [n.nvmlEventSetWait_v2(events, 0) for _ in range(3)]
        assert [(e.eventData, e.gpuInstanceId) for e in came] == [
            (94, 5), (31, ALL_INSTANCES), (79, ALL_INSTANCES),
        ]  # fmt: skip
        assert n.nvmlDeviceGetIndex(came[0].device) == 1
        for call in (n.nvmlDeviceGetPowerUsage, n.nvmlDeviceGetUUID, n.nvmlDeviceGetMemoryInfo):
            with pytest.raises(n.NVMLError_GpuIsLost):
                call(handles[0])
        with pytest.raises(n.NVMLError_GpuIsLost):
            n.nvmlEventSetWait(events, 0)
        assert n.nvmlDeviceGetPowerUsage(handles[1]) == 650_000
        n.nvmlEventSetFree(events)


def test_what_is_refused_has_its_own_code_and_only_while_it_lasts(nvml_library, tmp_path):
    device = one_gpu()
    device.refuse("FanSpeed", "FieldValues/83")
    device.refuse("ProcessUtilization", code=NO_PERMISSION)
    device.failures.append(fake.Failure("PowerUsage", 999, 10, 20))
    with fake.use_scenario(fake.Scenario([device]), nvml_library, tmp_path) as clock:
        n.nvmlInit()
        with pytest.raises(n.NVMLError_NotSupported):
            n.nvmlDeviceGetFanSpeed(gpu())
        with pytest.raises(n.NVMLError_NoPermission):
            n.nvmlDeviceGetProcessUtilization(gpu(), 0)
        assert [v.nvmlReturn for v in n.nvmlDeviceGetFieldValues(gpu(), [83, 186])] == [3, 0]
        clock.set(10)
        with pytest.raises(n.NVMLError_Unknown):
            n.nvmlDeviceGetPowerUsage(gpu())
        clock.set(20)
        assert n.nvmlDeviceGetPowerUsage(gpu()) == 650_000
        n.nvmlShutdown()
        with pytest.raises(n.NVMLError_Uninitialized):
            n.nvmlDeviceGetCount()


@pytest.mark.parametrize(
    ("code", "says"), [(9, "Driver Not Loaded"), (18, "RM has detected an NVML/RM version")]
)
def test_a_program_on_it_finds_no_driver(nvml_library, tmp_path, code, says):
    done = fake.run_with(
        fake.Scenario([], init_code=code), nvml_library,
        "import pynvml; pynvml.nvmlInit()", tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert says in done.stderr


def test_a_program_on_it_sees_real_time_pass(nvml_library, tmp_path):
    device = one_gpu(PowerUsage=fake.ramp((0, 0), (100, 1e9)))
    program = """
import json, time, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
seen = [n.nvmlDeviceGetPowerUsage(h)]
time.sleep(0.05)
print(json.dumps([*seen, n.nvmlDeviceGetPowerUsage(h)]))
"""
    done = fake.run_with(fake.Scenario([device]), nvml_library, program, tmp_path)
    first, later = json.loads(done.stdout)
    assert later - first >= 0.05 * 1e7 - 1
