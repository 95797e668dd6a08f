"""The metrics that are watched: name and unit, and what others call each.

Names and units are those of `metric_names`, which reads the logs of other tools; here stand the
names that are written. DCGM's: dcgm_fields.h of 4.6.0 (its older names, as dcgm-exporter's default
set has them and dashboards ask for them) with the factor from our unit to DCGM's. OpenTelemetry's:
the semantic conventions for hardware metrics (hw.*, in development), where there is one.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

GAUGE, COUNTER = "gauge", "counter"
_MIB = 1 / (1 << 20)


class Metric(NamedTuple):
    """One metric. `column` is what it is called in a table of its own, unit and all."""

    name: str
    unit: str
    help: str
    kind: str = GAUGE
    dcgm: str | None = None  # without the prefix DCGM_FI_
    dcgm_scale: float = 1
    otel: str | None = None
    otel_labels: tuple[tuple[str, str], ...] = ()
    otel_scale: float = 1

    @property
    def column(self) -> str:
        """The name and the unit as one word: power_w, sm_active_pct."""
        suffix = _SUFFIXES.get(self.unit, "")
        return self.plain if self.plain.endswith(suffix) else self.plain + suffix

    @property
    def plain(self) -> str:
        """The name as one word, without the unit: power, sm_active."""
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower()).strip("_")


_SUFFIXES = {
    "W": "_w", "J": "_j", "MHz": "_mhz", "bytes": "_bytes", "%": "_pct", "C": "_c", "ns": "_ns",
    "bytes/s": "_bytes_per_s", "1/s": "_per_s", "flop/s": "_flop_per_s",
}  # fmt: skip


def _counted(name: str, help: str, dcgm: str | None = None, **more: Any) -> Metric:
    return Metric(name, "", help, COUNTER, dcgm, **more)


def _busy(name: str, help: str, dcgm: str | None = None) -> Metric:
    """A share of time: per cent here, a ratio there."""
    return Metric(name, "%", help, GAUGE, dcgm, 0.01)


def _slowed(why: str, dcgm: str) -> Metric:
    text = f"time for which clocks were lowered: {why}"
    return Metric(f"clocks lowered by {why}", "ns", text, COUNTER, dcgm)


def _task(name: str) -> dict[str, Any]:
    labels = (("hw.gpu.task", name),)
    return {"otel": "hw.gpu.utilization", "otel_labels": labels, "otel_scale": 0.01}


_LISTED = (
    # What nvidia-smi shows.
    Metric("power", "W", "power draw", dcgm="DEV_POWER_USAGE", otel="hw.power"),
    Metric(
        "instantaneous power", "W", "power draw, not averaged", dcgm="DEV_POWER_USAGE_INSTANT"
    ),
    Metric("power limit", "W", "power limit in force", dcgm="DEV_POWER_MGMT_LIMIT"),
    Metric(
        "energy", "J", "energy since the driver was loaded", COUNTER,
        "DEV_TOTAL_ENERGY_CONSUMPTION", 1e3, "hw.energy",
    ),
    Metric("SM clock", "MHz", "clock of the SMs", dcgm="DEV_SM_CLOCK"),
    Metric("memory clock", "MHz", "clock of the memory", dcgm="DEV_MEM_CLOCK"),
    Metric("clock event reasons", "bits", "why clocks are as they are",
           dcgm="DEV_CLOCK_THROTTLE_REASONS"),
    Metric("performance state", "", "P-state, 0 is the fastest", dcgm="DEV_PSTATE"),
    Metric("temperature", "C", "GPU temperature", dcgm="DEV_GPU_TEMP"),
    Metric("memory temperature", "C", "memory temperature", dcgm="DEV_MEMORY_TEMP"),
    Metric("fan speed", "%", "fan speed", dcgm="DEV_FAN_SPEED"),
    Metric("memory used", "bytes", "device memory in use", dcgm="DEV_FB_USED", dcgm_scale=_MIB,
           otel="hw.gpu.memory.usage"),
    Metric("memory free", "bytes", "device memory that is free", dcgm="DEV_FB_FREE",
           dcgm_scale=_MIB),
    Metric("memory reserved", "bytes", "device memory that the driver keeps",
           dcgm="DEV_FB_RESERVED", dcgm_scale=_MIB),
    Metric("memory total", "bytes", "device memory", dcgm="DEV_FB_TOTAL", dcgm_scale=_MIB,
           otel="hw.gpu.memory.limit"),
    Metric("GPU utilization", "%", "time with a kernel running, as nvidia-smi shows it",
           dcgm="DEV_GPU_UTIL", **_task("general")),
    Metric("memory utilization", "%", "time with the memory read or written",
           dcgm="DEV_MEM_COPY_UTIL"),
    Metric("encoder utilization", "%", "time of the encoder", dcgm="DEV_ENC_UTIL",
           **_task("encoder")),
    Metric("decoder utilization", "%", "time of the decoder", dcgm="DEV_DEC_UTIL",
           **_task("decoder")),
    # What is true of it: DCGM's profiling fields, NVML's GPM.
    _busy("graphics active", "time with any engine busy", "PROF_GR_ENGINE_ACTIVE"),
    _busy("SM active", "cycles with a warp resident, mean of all SMs", "PROF_SM_ACTIVE"),
    _busy("SM occupancy", "resident warps, as a share of the most possible", "PROF_SM_OCCUPANCY"),
    _busy("tensor active", "cycles with a tensor pipe active", "PROF_PIPE_TENSOR_ACTIVE"),
    _busy("tensor HMMA active", "FP16 and BF16 tensor pipe", "PROF_PIPE_TENSOR_HMMA_ACTIVE"),
    _busy("tensor IMMA active", "integer tensor pipe", "PROF_PIPE_TENSOR_IMMA_ACTIVE"),
    _busy("tensor DFMA active", "FP64 tensor pipe", "PROF_PIPE_TENSOR_DFMA_ACTIVE"),
    _busy("tensor DMMA active", "FP64 tensor pipe, as NVML's GPM tells it apart from DFMA"),
    _busy("DRAM active", "cycles with the memory's bus transferring", "PROF_DRAM_ACTIVE"),
    _busy("FP64 active", "FP64 pipe", "PROF_PIPE_FP64_ACTIVE"),
    _busy("FP32 active", "FP32 pipe", "PROF_PIPE_FP32_ACTIVE"),
    _busy("FP16 active", "FP16 pipe", "PROF_PIPE_FP16_ACTIVE"),
    _busy("integer active", "integer pipe", "PROF_PIPE_INT_ACTIVE"),
    Metric("PCIe sent", "bytes/s", "from the device to the host", dcgm="PROF_PCIE_TX_BYTES"),
    Metric("PCIe received", "bytes/s", "from the host to the device", dcgm="PROF_PCIE_RX_BYTES"),
    Metric("NVLink sent", "bytes/s", "over all links", dcgm="PROF_NVLINK_TX_BYTES"),
    Metric("NVLink received", "bytes/s", "over all links", dcgm="PROF_NVLINK_RX_BYTES"),
    # DCGM's field is called a counter and is one of MB/s: dcgm_fields.h, 449.
    Metric("NVLink total", "bytes/s", "sent and received, over all links",
           dcgm="DEV_NVLINK_BANDWIDTH_TOTAL", dcgm_scale=1e-6),
    # What went wrong.
    _counted("PCIe replays", "PCIe replays", "DEV_PCIE_REPLAY_COUNTER"),
    Metric("PCIe generation", "", "PCIe generation in use", dcgm="DEV_PCIE_LINK_GEN"),
    Metric("PCIe width", "", "PCIe lanes in use", dcgm="DEV_PCIE_LINK_WIDTH"),
    _counted("NVLink replays", "replays, over all links",
             "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"),
    _counted("NVLink CRC errors", "flits with a CRC error, over all links",
             "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
    _counted("corrected ECC errors", "since the driver was loaded", "DEV_ECC_SBE_VOL_TOTAL",
             otel="hw.errors", otel_labels=(("error.type", "corrected"),)),
    _counted("uncorrected ECC errors", "since the driver was loaded", "DEV_ECC_DBE_VOL_TOTAL",
             otel="hw.errors", otel_labels=(("error.type", "uncorrected"),)),
    _counted("rows remapped, corrected", "for corrected errors", "DEV_CORRECTABLE_REMAPPED_ROWS"),
    _counted("rows remapped, uncorrected", "for uncorrected errors",
             "DEV_UNCORRECTABLE_REMAPPED_ROWS"),
    Metric("row remap pending", "", "1: a reset is needed", dcgm="DEV_ROW_REMAP_PENDING"),
    Metric("row remap failure", "", "1: there was no row left", dcgm="DEV_ROW_REMAP_FAILURE"),
    _counted("pages retired, corrected", "for corrected errors", "DEV_RETIRED_SBE"),
    _counted("pages retired, uncorrected", "for uncorrected errors", "DEV_RETIRED_DBE"),
    Metric("page retirement pending", "", "1: a reset is needed", dcgm="DEV_RETIRED_PENDING"),
    Metric("XID", "", "the last XID", dcgm="DEV_XID_ERRORS"),
    Metric("recovery action", "", "what the driver asks for: 0 nothing, 1 to 7 as in nvml.h"),
    _slowed("power", "DEV_POWER_VIOLATION"),
    _slowed("heat", "DEV_THERMAL_VIOLATION"),
    _slowed("sync boost", "DEV_SYNC_BOOST_VIOLATION"),
    _slowed("board limit", "DEV_BOARD_LIMIT_VIOLATION"),
    _slowed("low utilization", "DEV_LOW_UTIL_VIOLATION"),
    _slowed("reliability", "DEV_RELIABILITY_VIOLATION"),
    Metric("vGPU license", "", "1: licensed", dcgm="DEV_VGPU_LICENSE_STATUS"),
    # The host.
    Metric("CPU utilization", "%", "all CPUs, time not idle", otel="system.cpu.utilization",
           otel_scale=0.01),
    Metric("CPU waiting for I/O", "%", "all CPUs, time idle with I/O under way"),
    Metric("load", "", "runnable and uninterruptible tasks, mean over a minute"),
    Metric("CPUs", "", "logical CPUs"),
    Metric("FLOP rate", "flop/s", "operations on floating-point numbers, of any precision"),
    Metric("FLOP rate, double precision", "flop/s", "operations on numbers of 64 bits"),
    Metric("FLOP rate, single precision", "flop/s", "operations on numbers of 32 bits"),
    Metric("memory bandwidth", "bytes/s", "the host's memory, read and written"),
    Metric("instructions per cycle", "", "instructions of a cycle in which a CPU was not idle"),
    Metric("host memory used", "bytes", "total less available"),
    Metric("host memory total", "bytes", "all memory"),
    Metric("swap used", "bytes", "swapped out"),
    Metric("disk read", "bytes/s", "all disks"),
    Metric("disk written", "bytes/s", "all disks"),
    Metric("network received", "bytes/s", "all interfaces but the loopback's"),
    Metric("network sent", "bytes/s", "all interfaces but the loopback's"),
    Metric("link received", "bytes/s", "an InfiniBand or RoCE port"),
    Metric("link sent", "bytes/s", "an InfiniBand or RoCE port"),
    _counted("link errors", "symbol errors of a port"),
    _counted("link downed", "how often a port went down"),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _LISTED}
