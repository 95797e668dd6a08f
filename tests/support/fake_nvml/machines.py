"""Fake machines to start from: an H200 with every value that the fake knows, eight of them, MIG."""

from __future__ import annotations

from support.fake_nvml.scenario import (
    ALL_INSTANCES,
    DOUBLE_BIT_ECC,
    POLICIES,
    SINGLE_BIT_ECC,
    XID,
    Device,
    Scenario,
    Values,
    accumulate,
    steps,
)

MIB = 1 << 20
DAY_S = 86400.0
# GPM metrics (nvml.h, NVML_GPM_METRIC_*): what a training step of large matrix products shows.
# 1 graphics, 2 SM active, 3 occupancy, 4 integer, 5 any tensor, 6 DFMA, 7 HMMA, 8 DMMA, 9 IMMA,
# 10 DRAM, 11 FP64, 12 FP32, 13 FP16 (%); 20 and 21 PCIe sent and received, 60 and 61 NVLink
# received and sent (MiB/s).
GPM = {
    1: 98.0, 2: 92.5, 3: 41.0, 4: 12.0, 5: 55.5, 6: 0.0, 7: 55.5, 8: 0.0, 9: 0.0, 10: 63.0,
    11: 0.0, 12: 9.5, 13: 1.5, 20: 850.0, 21: 1200.0, 60: 45_000.0, 61: 44_000.0,
}  # fmt: skip


def make_h200(index: int = 0, power_w: Values | None = None) -> Device:
    """An H200 SXM that trains: 650 W and what goes with it, or power as given (W, in steps)."""
    watts = power_w or steps((0, 650.0))
    milliwatts = Values(tuple((t, w * 1000) for t, w in watts.points))
    energy = accumulate(milliwatts, DAY_S * 2)  # mW times seconds are mJ
    device = Device(
        name="NVIDIA H200",
        uuid=f"GPU-00000000-0000-0000-0000-{index:012d}",
        bus_id=f"00000000:{0x10 + index:02X}:00.0",
        serial=f"16500240000{index:02d}",
    )
    device.values |= {
        "MinorNumber": index, "PersistenceMode": 1, "ComputeMode": 0,
        "DisplayMode": 0, "DisplayActive": 0, "Brand": 14,
        "Architecture": 9, "NumGpuCores": 16896, "MemoryBusWidth": 6144,
        "CudaComputeCapability.major": 9, "CudaComputeCapability.minor": 0,
        "PciInfo.pciDeviceId": 0x233510DE,
        "PowerUsage": milliwatts, "PowerManagementMode": 1, "PowerManagementLimit": 700_000,
        "PowerManagementDefaultLimit": 700_000, "EnforcedPowerLimit": 700_000,
        "PowerManagementLimitConstraints.min": 200_000,
        "PowerManagementLimitConstraints.max": 700_000,
        "TotalEnergyConsumption": energy, "PerformanceState": 0,
        "UtilizationRates.gpu": 100, "UtilizationRates.memory": 47,
        "EncoderUtilization.util": 0, "EncoderUtilization.period": 167_000,
        "DecoderUtilization.util": 0, "DecoderUtilization.period": 167_000,
        "JpgUtilization.util": 0, "JpgUtilization.period": 167_000,
        "OfaUtilization.util": 0, "OfaUtilization.period": 167_000,
        "MemoryInfo.total": 143_771 * MIB, "MemoryInfo.used": 61_440 * MIB,
        "MemoryInfo.reserved": 615 * MIB,
        "BAR1MemoryInfo.bar1Total": 262_144 * MIB, "BAR1MemoryInfo.bar1Used": MIB,
        "Temperature/0": 61, "TemperatureThreshold/0": 92, "TemperatureThreshold/1": 89,
        "TemperatureThreshold/2": 95, "TemperatureThreshold/3": 87,
        "CurrentClocksEventReasons": 0, "SupportedClocksEventReasons": 0x1FF,
        "PcieThroughput/0": 870_400, "PcieThroughput/1": 1_228_800, "PcieReplayCounter": 0,
        "CurrPcieLinkGeneration": 5, "CurrPcieLinkWidth": 16, "MaxPcieLinkGeneration": 5,
        "MaxPcieLinkWidth": 16,
        "EccMode.current": 1, "EccMode.pending": 1, "RetiredPagesPendingStatus": 0,
        "RemappedRows.corrected": 0, "RemappedRows.uncorrected": 0, "RemappedRows.pending": 0,
        "RemappedRows.failure": 0,
        "MigMode.current": 0, "MigMode.pending": 0, "MaxMigDeviceCount": 7,
        "GridLicensableFeatures": 0, "GpmSupport": 1,
        "SupportedEventTypes": SINGLE_BIT_ECC | DOUBLE_BIT_ECC | XID,
    }  # fmt: skip
    for clock, current, highest in ((0, 1965, 1980), (1, 1965, 1980), (2, 3201, 3201),
                                    (3, 1545, 1545)):  # fmt: skip
        device.values |= {f"ClockInfo/{clock}": current, f"MaxClockInfo/{clock}": highest}
        device.values |= {f"Clock/{clock}/0": current, f"Clock/{clock}/3": highest}
    for link in range(18):
        device.values[f"NvLinkState/{link}"] = 1
    for kind in (0, 1):
        for counter in (0, 1):
            device.values[f"TotalEccErrors/{kind}/{counter}"] = 0
            for location in (0, 1, 2, 3):  # L1, L2, device memory, registers
                device.values[f"MemoryErrorCounter/{kind}/{counter}/{location}"] = 0
    device.values |= {f"ViolationStatus/{policy}": 0 for policy in POLICIES}
    device.values |= {f"Gpm/{metric}": value for metric, value in GPM.items()}
    links_kib = accumulate(steps((0, 45_000 * 1024)), DAY_S * 2)
    fields: dict[int, Values | float] = {
        # Memory's temperature, energy, power averaged and instantaneous and its limits, XID-free.
        82: 68, 83: energy, 185: milliwatts, 186: milliwatts, 187: 200_000, 188: 700_000,
        189: 700_000, 190: 700_000, 192: 700_000,
        # Violations: power, thermal, sync boost, board, utilization, reliability, two totals (ns).
        **dict.fromkeys(range(74, 82), 0),
        # Errors of memory: single and double bit, volatile and aggregate; remapped rows.
        3: 0, 4: 0, 5: 0, 6: 0, 230: 0, 142: 0, 143: 0, 144: 0, 145: 0,
        # Reasons of low clocks that have counters of their own (ns).
        269: 0, 270: 0, 271: 0,
    }  # fmt: skip
    device.values |= {f"FieldValues/{number}/0": value for number, value in fields.items()}
    device.values |= {
        f"FieldValues/{number}/{ALL_INSTANCES}": links_kib for number in (138, 139, 140, 141)
    }  # NVLink: data sent and received, then with overhead (KiB)
    return device


def make_instance(parent: Device, gpu_instance: int, slices: int, memory_mib: int) -> Device:
    """An instance of a GPU (MIG) that computes, added to it; utilization is only known by GPM."""
    number = len(parent.instances)
    instance = Device(
        name=f"{parent.name} MIG {slices}g.{memory_mib // 1000}gb",
        uuid=f"MIG-{number + 1:08d}-{parent.uuid[13:]}",
        bus_id=parent.bus_id,
        serial=parent.serial,
        gpu_instance=gpu_instance,
        compute_instance=0,
    )
    instance.values |= {
        "Attributes.multiprocessorCount": 16 * slices, "Attributes.sharedCopyEngineCount": slices,
        "Attributes.sharedDecoderCount": slices, "Attributes.sharedEncoderCount": 0,
        "Attributes.sharedJpegCount": slices, "Attributes.sharedOfaCount": 0,
        "Attributes.gpuInstanceSliceCount": slices,
        "Attributes.computeInstanceSliceCount": slices, "Attributes.memorySizeMB": memory_mib,
        "MemoryInfo.total": memory_mib * MIB, "MemoryInfo.used": 1024 * MIB, "GpmSupport": 1,
        "BAR1MemoryInfo.bar1Total": 32_768 * MIB, "BAR1MemoryInfo.bar1Used": MIB,
    }  # fmt: skip
    instance.values |= {f"Gpm/{metric}": value / 2 for metric, value in GPM.items()}
    parent.instances.append(instance)
    parent.values |= {"MigMode.current": 1, "MigMode.pending": 1}
    parent.refuse("UtilizationRates", "EncoderUtilization", "DecoderUtilization")
    return instance


def make_eight() -> Scenario:
    """Eight H200, each with a power and a temperature of its own."""
    devices = []
    for index in range(8):
        device = make_h200(index, steps((0, 600.0 + 10 * index)))
        device.values["Temperature/0"] = 55 + index
        devices.append(device)
    return Scenario(devices)
