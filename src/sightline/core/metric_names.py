"""What monitoring tools call a metric, and what it is called here: one name and one unit each.

Names: NVML and nvidia-smi (`nvidia-smi --help-query-gpu`, elements of `-q -x`, columns of `dmon`),
DCGM (dcgm_fields.h of 4.6.0 with its older aliases, the short names of `dcgmi dmon`, and its tags,
as Azure's Moneo has them), nvidia_gpu_exporter, rocm-smi, amd-smi (`metric`, `monitor`), AMD's
device-metrics-exporter, xpu-smi and all-smi. What is not listed keeps the name and the unit that
its tool gives it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sightline.core.watched_metrics import METRICS

_MIB = 1 << 20

# Our name, our unit: the names elsewhere, each with what its numbers have to be multiplied by.
_NAMES: dict[tuple[str, str], dict[str, float]] = {
    ("power", "W"): {
        "power_draw": 1, "pwr": 1,
        "dcgm_fi_dev_power_usage": 1, "dcgm_fi_dev_board_power_watts": 1, "dcgm_power_usage": 1,
        "nvidia_smi_power_draw_watts": 1, "average_graphics_package_power": 1,
        "current_socket_graphics_package_power": 1, "gpu_power_usage": 1, "power": 1,
        "socket_power": 1, "power_usage": 1, "gpu_power": 1, "average_socket_power": 1,
        "all_smi_gpu_power_consumption_watts": 1,
    },
    ("instantaneous power", "W"): {
        "instant_power_draw": 1, "power_draw_instant": 1, "powinst": 1,
        "nvidia_smi_power_draw_instant_watts": 1, "dcgm_fi_dev_power_usage_instant": 1,
        "dcgm_fi_dev_board_power_raw_watts": 1,
        "instantaneous_power_draw": 1,
    },
    ("average power", "W"): {
        "power_draw_average": 1, "average_power_draw": 1, "nvidia_smi_power_draw_average_watts": 1,
        "gpu_average_package_power": 1,
    },
    ("power limit", "W"): {
        "power_limit": 1, "current_power_limit": 1, "dcgm_fi_dev_power_mgmt_limit": 1,
        "nvidia_smi_power_limit_watts": 1, "max_graphics_package_power": 1, "gpu_power_limit": 1,
        "max_power": 1,
    },
    ("energy", "J"): {
        "dcgm_fi_dev_total_energy_consumption": 1e-3, "totec": 1e-3,
        "dcgm_total_energy_consumption": 1e-3,
        "total_energy_consumption": 1, "gpu_energy_consumed": 1, "energy_consumed": 1,
        "accumulated_energy": 1e-6,  # rocm-smi, in microjoules
    },
    ("SM clock", "MHz"): {
        "clocks_current_sm": 1, "clocks_sm": 1, "sm_clock": 1, "dcgm_fi_dev_sm_clock": 1,
        "smclk": 1, "nvidia_smi_clocks_current_sm_clock_hz": 1e-6, "sclk_clock_speed": 1,
        "pclk": 1, "dcgm_sm_clock": 1,
        "gfx_clk": 1, "gfx_clock": 1, "gpu_frequency": 1,
        "all_smi_gpu_frequency_mhz": 1,
    },
    ("graphics clock", "MHz"): {
        "clocks_current_graphics": 1, "clocks_gr": 1, "graphics_clock": 1,
        "nvidia_smi_clocks_current_graphics_clock_hz": 1e-6,
        "clocks_graphics": 1,
    },
    ("memory clock", "MHz"): {
        "clocks_current_memory": 1, "clocks_mem": 1, "mem_clock": 1, "dcgm_fi_dev_mem_clock": 1,
        "mmclk": 1, "nvidia_smi_clocks_current_memory_clock_hz": 1e-6, "mclk_clock_speed": 1,
        "mclk": 1, "dcgm_memory_clock": 1,
        "mem_clk": 1, "clocks_memory": 1,
    },
    ("memory used", "bytes"): {
        "memory_used": _MIB, "fb_memory_usage_used": _MIB, "dcgm_fi_dev_fb_used": _MIB,
        "fbusd": _MIB, "fb": _MIB, "nvidia_smi_memory_used_bytes": 1,
        "vram_total_used_memory": 1, "gpu_mem_used": 1,
        "vram_used": _MIB, "used_vram": _MIB, "gpu_memory_used": _MIB,
        "all_smi_gpu_memory_used_bytes": 1,
        "shared_fb_memory_usage_used": _MIB,
    },
    ("memory total", "bytes"): {
        "memory_total": _MIB, "fb_memory_usage_total": _MIB, "dcgm_fi_dev_fb_total": _MIB,
        "fbttl": _MIB, "nvidia_smi_memory_total_bytes": 1, "vram_total_memory": 1,
        "gpu_mem_total": 1,
        "vram_total": _MIB, "total_vram": _MIB,
        "all_smi_gpu_memory_total_bytes": 1,
        "shared_fb_memory_usage_total": _MIB,
    },
    ("memory free", "bytes"): {
        "memory_free": _MIB, "fb_memory_usage_free": _MIB, "dcgm_fi_dev_fb_free": _MIB,
        "fbfre": _MIB, "nvidia_smi_memory_free_bytes": 1,
        "vram_free": _MIB, "free_vram": _MIB,
        "shared_fb_memory_usage_free": _MIB,
    },
    ("GPU utilization", "%"): {
        "utilization_gpu": 1, "utilization_gpu_util": 1, "dcgm_fi_dev_gpu_util": 1,
        "dcgm_fi_dev_gpu_util_ratio": 1, "gputl": 1, "sm": 1, "dcgm_gpu_utilization": 1,
        "nvidia_smi_utilization_gpu_ratio": 100, "gpu_use": 1, "gpu_usage": 1,
        "gfx_activity": 1, "gfx": 1, "gfx_util": 1, "gpu_utilization": 1,
        "all_smi_gpu_utilization": 1,
    },
    ("memory utilization", "%"): {
        "utilization_memory": 1, "utilization_memory_util": 1, "dcgm_fi_dev_mem_copy_util": 1,
        "mcutl": 1, "mem": 1, "nvidia_smi_utilization_memory_ratio": 100,
        "dcgm_mem_copy_utilization": 1,
        "umc_activity": 1, "mem_util": 1, "gpu_memory_bandwidth_utilization": 1,
        "memory_bandwidth_utilization": 1,
        "gpu_memory_use": 1, "gpu_memory_read_write_activity": 1,
    },
    ("encoder utilization", "%"): {
        "utilization_encoder": 1, "utilization_encoder_util": 1, "dcgm_fi_dev_enc_util": 1,
        "enc": 1, "nvidia_smi_utilization_encoder_ratio": 100,
        "encoder": 1, "encoder_util": 1,
    },
    ("decoder utilization", "%"): {
        "utilization_decoder": 1, "utilization_decoder_util": 1, "dcgm_fi_dev_dec_util": 1,
        "dec": 1, "nvidia_smi_utilization_decoder_ratio": 100,
        "decoder": 1, "decoder_util": 1,
    },
    ("temperature", "C"): {
        "temperature_gpu": 1, "temperature_gpu_temp": 1, "dcgm_fi_dev_gpu_temp": 1,
        "dcgm_fi_dev_gpu_temp_celsius": 1, "tmptr": 1, "gtemp": 1, "dcgm_gpu_temp": 1,
        "nvidia_smi_temperature_gpu": 1, "temperature_sensor_edge": 1, "gpu_temperature": 1,
        "gpu_core_temperature": 1, "temperature_gpu_current_temp": 1,
        "all_smi_gpu_temperature_celsius": 1,
    },
    ("memory temperature", "C"): {
        "temperature_memory": 1, "temperature_memory_temp": 1, "dcgm_fi_dev_memory_temp": 1,
        "dcgm_fi_dev_memory_temp_celsius": 1, "mmtmp": 1, "mtemp": 1, "dcgm_memory_temp": 1,
        "nvidia_smi_temperature_memory": 1, "temperature_sensor_memory": 1,
        "memory_temperature": 1, "gpu_memory_temperature": 1,
        "temperature_memory_current_temp": 1,
    },
    ("fan speed", "%"): {
        "fan_speed": 1, "nvidia_smi_fan_speed_ratio": 100, "dcgm_fi_dev_fan_speed": 1, "fanspe": 1,
        "fansp": 1,
    },
    ("clock event reasons", "bits"): {
        "clocks_event_reasons_active": 1, "clocks_throttle_reasons_active": 1,
        "dcgm_fi_dev_clocks_event_reasons": 1, "dcgm_fi_dev_clock_throttle_reasons": 1,
        "dvccr": 1, "dvcctr": 1, "nvidia_smi_clocks_event_reasons_active": 1,
        "dcgm_current_clock_throttle_reasons": 1, "dcgm_current_clocks_event_reasons": 1,
        "nvidia_smi_clocks_throttle_reasons_active": 1,
    },
    ("XID", ""): {"dcgm_fi_dev_xid_errors": 1, "dcgm_fi_dev_xid_error": 1, "xider": 1},
    ("graphics active", "%"): {
        "dcgm_fi_prof_gr_engine_active": 100, "dcgm_fi_prof_gr_engine_util_ratio": 100,
        "gract": 100,
    },
    ("SM active", "%"): {
        "dcgm_fi_prof_sm_active": 100, "dcgm_fi_prof_sm_util_ratio": 100, "smact": 100,
        "dcgm_sm_active": 100,
    },
    ("SM occupancy", "%"): {
        "dcgm_fi_prof_sm_occupancy": 100, "dcgm_fi_prof_sm_occupancy_ratio": 100, "smocc": 100,
        "dcgm_sm_occupancy": 100,
        "all_smi_gpu_sm_occupancy": 100,
    },
    ("tensor active", "%"): {
        "dcgm_fi_prof_pipe_tensor_active": 100, "dcgm_fi_prof_tensor_util_ratio": 100, "tenso": 100,
    },
    ("DRAM active", "%"): {
        "dcgm_fi_prof_dram_active": 100, "dcgm_fi_prof_dram_util_ratio": 100, "drama": 100,
        "dcgm_dram_active": 100,
        "all_smi_gpu_memory_bandwidth_utilization": 100,
    },
    ("FP64 active", "%"): {
        "dcgm_fi_prof_pipe_fp64_active": 100, "dcgm_fi_prof_fp64_util_ratio": 100, "fp64a": 100,
    },
    ("FP32 active", "%"): {
        "dcgm_fi_prof_pipe_fp32_active": 100, "dcgm_fi_prof_fp32_util_ratio": 100, "fp32a": 100,
    },
    ("FP16 active", "%"): {
        "dcgm_fi_prof_pipe_fp16_active": 100, "dcgm_fi_prof_fp16_util_ratio": 100, "fp16a": 100,
    },
    # Parts of the tensor pipes: floating point but FP64, integers, FP64.
    ("tensor HMMA active", "%"): {
        "dcgm_fi_prof_pipe_tensor_hmma_active": 100, "dcgm_fi_prof_hmma_util_ratio": 100,
        "thmma": 100,
    },
    ("tensor IMMA active", "%"): {
        "dcgm_fi_prof_pipe_tensor_imma_active": 100, "dcgm_fi_prof_imma_util_ratio": 100,
        "timma": 100,
    },
    ("tensor DFMA active", "%"): {
        "dcgm_fi_prof_pipe_tensor_dfma_active": 100, "dcgm_fi_prof_dfma_util_ratio": 100,
        "tdfma": 100,
    },
    ("integer active", "%"): {
        "dcgm_fi_prof_pipe_int_active": 100, "dcgm_fi_prof_int_util_ratio": 100, "intac": 100,
    },
    # From the GPU's side (DCGM): sent is from the device to the host.
    ("PCIe sent", "bytes/s"): {"dcgm_fi_prof_pcie_tx_bytes": 1, "pcitx": 1, "txpci": _MIB},
    ("PCIe received", "bytes/s"): {"dcgm_fi_prof_pcie_rx_bytes": 1, "pcirx": 1, "rxpci": _MIB},
    ("NVLink sent", "bytes/s"): {"dcgm_fi_prof_nvlink_tx_bytes": 1, "nvltx": 1},
    ("NVLink received", "bytes/s"): {"dcgm_fi_prof_nvlink_rx_bytes": 1, "nvlrx": 1},
    # Moneo's exporter of a node (node_exporter.py); of one CPU where `source` names it.
    ("CPU utilization", "%"): {"node_cpu_util": 1},
    ("CPU waiting for I/O", "%"): {"node_cpu_times_iowait": 1},
    ("CPU time of programs", "%"): {"node_cpu_times_user": 1},
    ("CPU time of the kernel", "%"): {"node_cpu_times_system": 1},
    ("CPU idle", "%"): {"node_cpu_times_idle": 1},
    ("CPU clock", "MHz"): {"node_cpu_frequency": 1},
    ("host memory available", "bytes"): {"node_mem_available": 1 << 10},
    ("host memory utilization", "%"): {"node_mem_util": 1},
    ("network received", "bytes/s"): {"node_net_rx": 1},
    ("network sent", "bytes/s"): {"node_net_tx": 1},
    ("link sent", "bytes/s"): {"link_sent": 1},
    ("link received", "bytes/s"): {"link_received": 1},
}  # fmt: skip
# What DCGM calls what is only watched (`watched_metrics`) since 4.6, and in `dcgmi dmon`. Not pviol
# and tviol: nvidia-smi dmon has columns of that name, in other units.
_WATCHED = {
    "performance state": "dcgm_fi_dev_gpu_pstate pstat", "memory reserved": "fbrsv dcgm_fb_resv",
    "memory used": "dcgm_fb_used", "memory total": "dcgm_fb_total", "memory free": "dcgm_fb_free",
    "power limit": "dcgm_fi_dev_board_power_limit_requested_watts pmlmt",
    "encoder utilization": "ecutl dcgm_enc_utilization",
    "decoder utilization": "dcutl dcgm_dec_utilization",
    "graphics active": "dcgm_gr_engine_active", "tensor active": "dcgm_tensor_active",
    "tensor HMMA active": "dcgm_tensor_hmma_active",
    "tensor IMMA active": "dcgm_tensor_imma_active",
    "tensor DFMA active": "dcgm_tensor_dfma_active",
    "FP64 active": "dcgm_fp64_active", "FP32 active": "dcgm_fp32_active",
    "FP16 active": "dcgm_fp16_active", "integer active": "dcgm_integer_active",
    "PCIe sent": "dcgm_pcie_tx_bytes", "PCIe received": "dcgm_pcie_rx_bytes",
    "NVLink sent": "dcgm_nvlink_tx_bytes", "NVLink received": "dcgm_nvlink_rx_bytes",
    "NVLink total": "dcgm_fi_dev_nvlink_throughput_total nbwlt",
    "PCIe replays": "dcgm_fi_dev_pcie_replay_total rpctr",
    "PCIe generation": "pcilg", "PCIe width": "pcilw",
    "NVLink replays": "dcgm_fi_dev_nvlink_replay_error_total nrelt",
    "NVLink CRC errors": "dcgm_fi_dev_nvlink_crc_flit_error_total nfelt",
    "corrected ECC errors": "esvtl dcgm_ecc_sbe_volatile_total",
    "uncorrected ECC errors": "edvtl dcgm_ecc_dbe_volatile_total",
    "rows remapped, corrected": "dcgm_fi_dev_row_remap_correctable_total crmps",
    "rows remapped, uncorrected": "dcgm_fi_dev_row_remap_uncorrectable_total urmps",
    "row remap pending": "rrp", "row remap failure": "dcgm_fi_dev_row_remap_failed rrf",
    "pages retired, corrected": "dcgm_fi_dev_page_retired_sbe_total rpsbe dcgm_retired_pages_sbe",
    "pages retired, uncorrected":
        "dcgm_fi_dev_page_retired_dbe_total rpdbe dcgm_retired_pages_dbe",
    "page retirement pending":
        "dcgm_fi_dev_page_retired_pending rppen dcgm_retired_pages_pending",
    "XID": "dcgm_xid_errors",
    "clocks lowered by power": "dcgm_power_violation",
    "clocks lowered by heat": "dcgm_thermal_violation",
    "clocks lowered by sync boost": "sbvio dcgm_sync_boost_violation",
    "clocks lowered by board limit": "blvio dcgm_board_limit_violation",
    "clocks lowered by low utilization": "luvio dcgm_low_util_violation",
    "clocks lowered by reliability": "rviol dcgm_reliability_violation",
    "vGPU license": "vlcst",
}  # fmt: skip
_KNOWN = {
    peer: (metric.name, metric.unit, 1 / metric.dcgm_scale)
    for metric in METRICS.values()
    if metric.dcgm
    for peer in (f"dcgm_fi_{metric.dcgm.lower()}", *_WATCHED.get(metric.name, "").split())
} | {
    peer: (name, unit, scale)
    for (name, unit), peers in _NAMES.items()
    for peer, scale in peers.items()
}


def list_metric_names() -> list[str]:
    """The names here, those first that a person asks for first."""
    return [name for name, _ in _NAMES]


@lru_cache(4096)  # asked once a value: a log repeats few names
def name_metric(peer: str, unit: str = "") -> tuple[str, str, float]:
    """A metric's name and unit here, and what to multiply by; unknown ones stay as they are."""
    known = _KNOWN.get(re.sub(r"[^a-z0-9]+", "_", peer.lower()).strip("_"))
    if known is None:
        return peer, unit, 1.0
    name, ours, scale = known
    if ours == "bytes":  # where the tool says its unit, that counts
        scale = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}.get(unit, scale)
    return name, ours, scale
