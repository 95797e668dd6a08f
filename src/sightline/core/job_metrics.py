"""The metrics of jobs: one name and one unit each, and what others call them.

Names are ClusterCockpit's (job-meta.schema.json), which rules of clusters are written in. Others:
its collectors, Jobstats' summary (AdminComment), Slurm's TRES, and the Prometheus exporters that
sites run (node_exporter, cgroup_exporter, nvidia_gpu_prometheus_exporter, dcgm-exporter), and the
metrics of `sightline watch`. `per` is what rules of these dialects count in: gigabytes, GF/s.
"""

from __future__ import annotations

from typing import NamedTuple

SUM, MEAN = "sum", "mean"


class JobMetric(NamedTuple):
    """A metric: unit here, how nodes and parts add up to a job, and its names elsewhere."""

    name: str
    unit: str
    adds: str
    per: float
    others: tuple[str, ...] = ()


_GB, _MB = 1e9, 1e6
_PARTS = {
    "tensor": "PIPE_TENSOR_ACTIVE", "fp64": "PIPE_FP64_ACTIVE", "fp32": "PIPE_FP32_ACTIVE",
    "fp16": "PIPE_FP16_ACTIVE", "dram": "DRAM_ACTIVE",
}  # fmt: skip
GPU_PIPES = ("acc_tensor_active", "acc_fp64_active", "acc_fp32_active", "acc_fp16_active")
GPU_MEMORY = "acc_dram_active"
_LISTED = (
    JobMetric("cpu_load", "", SUM, 1, ("load_one", "load", "node_load1", "cpu_load_core")),
    JobMetric("cpu_user", "%", MEAN, 1, ("cpu_usage", "cpu_utilization")),
    JobMetric("mem_used", "bytes", SUM, _GB, (
        "used_memory", "cgroup_memory_rss_bytes", "host_memory_used",
    )),
    JobMetric("mem_bw", "bytes/s", SUM, _GB, ("memory_bandwidth",)),
    JobMetric("flops_any", "flop/s", SUM, _GB, ("flop_rate",)),
    JobMetric("flops_dp", "flop/s", SUM, _GB, ("flop_rate_double_precision",)),
    JobMetric("flops_sp", "flop/s", SUM, _GB, ("flop_rate_single_precision",)),
    JobMetric("ipc", "", MEAN, 1, ("instructions_per_cycle",)),
    JobMetric("clock", "Hz", MEAN, _MB),
    JobMetric("vectorization_ratio", "%", MEAN, 1),
    JobMetric("cpu_power", "W", SUM, 1, ("rapl_power", "core_power")),
    JobMetric("mem_power", "W", SUM, 1),
    JobMetric("node_power", "W", SUM, 1, ("total_power", "node_total_power")),
    JobMetric("acc_utilization", "%", MEAN, 1, (
        "nv_util", "acc_util", "gpu_utilization", "gres/gpuutil",
        "nvidia_gpu_duty_cycle", "DCGM_FI_DEV_GPU_UTIL", "rocm_gfx_util",
    )),
    JobMetric("acc_sm_active", "%", MEAN, 1, (
        "sm_active", "DCGM_FI_PROF_SM_ACTIVE", "nv_sm_active",
    )),
    # Of their peaks: the pipes that compute, and the memory (DCGM's profiling fields, NVML's GPM).
    *(
        JobMetric(f"acc_{part}_active", "%", MEAN, 1, (f"{part}_active", f"DCGM_FI_PROF_{field}"))
        for part, field in _PARTS.items()
    ),
    JobMetric("acc_clock", "Hz", MEAN, _MB, ("sm_clock", "nv_sm_clock", "DCGM_FI_DEV_SM_CLOCK")),
    JobMetric("acc_mem_used", "bytes", SUM, _MB, (
        "nv_fb_mem_used", "gpu_used_memory", "memory_used", "gres/gpumem",
        "nvidia_gpu_memory_used_bytes", "DCGM_FI_DEV_FB_USED",
    )),
    JobMetric("acc_power", "W", SUM, 1, (
        "nv_power_usage", "power", "nvidia_gpu_power_usage_milliwatts", "DCGM_FI_DEV_POWER_USAGE",
        "rocm_avg_power",
    )),
    JobMetric("net_bw", "bytes/s", SUM, _MB),
    JobMetric("ib_recv", "bytes/s", SUM, _MB, (
        "ic_rcv", "ic_read_bw", "ib_rcv_bw", "ib_read_bw", "link_received",
    )),
    JobMetric("ib_xmit", "bytes/s", SUM, _MB, (
        "ic_send", "ic_write_bw", "ib_send_bw", "ib_write_bw", "link_sent",
    )),
    JobMetric("eth_recv", "bytes/s", SUM, _MB, ("eth_read_bw", "net_bytes_in", "network_received")),
    JobMetric("eth_xmit", "bytes/s", SUM, _MB, ("eth_write_bw", "net_bytes_out", "network_sent")),
    JobMetric("file_read", "bytes/s", SUM, _MB, (
        "read_bw", "lustre_read_bw", "nfs4_read_bw", "fs_read", "disk_read_bw", "disk_read",
    )),
    JobMetric("file_write", "bytes/s", SUM, _MB, (
        "write_bw", "lustre_write_bw", "nfs4_write_bw", "fs_write", "disk_write_bw",
        "disk_written",
    )),
    JobMetric("cpu_iowait", "%", MEAN, 1, ("iowait", "node_cpu_iowait", "cpu_waiting_for_i_o")),
)  # fmt: skip

# What exporters of Prometheus write: our metric, and what their numbers are multiplied by.
# node_exporter; nvidia_gpu_prometheus_exporter (Jobstats); dcgm-exporter, which `watch` is like.
EXPORTED: dict[str, tuple[str, float]] = {
    "node_load1": ("cpu_load", 1.0),
    "nvidia_gpu_duty_cycle": ("acc_utilization", 1.0),
    "nvidia_gpu_memory_used_bytes": ("acc_mem_used", 1.0),
    "nvidia_gpu_power_usage_milliwatts": ("acc_power", 1e-3),
    "DCGM_FI_DEV_GPU_UTIL": ("acc_utilization", 1.0),
    "DCGM_FI_DEV_FB_USED": ("acc_mem_used", 1024.0**2),
    "DCGM_FI_DEV_POWER_USAGE": ("acc_power", 1.0),
    "DCGM_FI_DEV_SM_CLOCK": ("acc_clock", 1e6),
    "DCGM_FI_PROF_SM_ACTIVE": ("acc_sm_active", 100.0),
    **{f"DCGM_FI_PROF_{field}": (f"acc_{part}_active", 100.0) for part, field in _PARTS.items()},
}
METRICS = {metric.name: metric for metric in _LISTED}
_BY_NAME = {name.lower(): metric for metric in _LISTED for name in (metric.name, *metric.others)}
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BASES = {"B": "bytes", "B/S": "bytes/s", "F/S": "flop/s", "HZ": "Hz", "W": "W", "J": "J"}
_BASES |= {"%": "%", "PERCENT": "%", "°C": "C", "DEGC": "C", "LOAD": "", "CPI": "", "IPC": ""}


def name_job_metric(given: str, base: str = "", prefix: str = "") -> tuple[str, str, float]:
    """Our name, our unit, and what a number of this unit is multiplied by.

    A metric that is not listed keeps its name, and a unit that is not known its word. The unit of
    a listed one is its own: archives state "B/s" of memory that is used.
    """
    metric = _BY_NAME.get(given.lower())
    scale = _PREFIXES.get(prefix.strip().upper(), 1.0)
    if metric is not None:
        return metric.name, metric.unit, scale
    return given, _BASES.get(base.strip().upper(), base.strip()), scale


def split_unit(unit: str) -> tuple[str, str]:
    """Base and prefix of a unit that is written as one word: "GB/s" is ("B/s", "G")."""
    word = unit.strip()
    for base in ("B/s", "F/s", "Flops/s", "Hz", "B", "W", "J"):
        head = word.removesuffix(base)
        if head != word and head.upper() in _PREFIXES:
            return ("F/s" if base == "Flops/s" else base), head.upper()
    return word, ""


def find_job_metric(name: str) -> str:
    """Our name of a metric that a rule calls so; the same where it is not listed."""
    metric = _BY_NAME.get(name.lower())
    return name if metric is None else metric.name
