"""How the generations of Kineto differ. Each dialect copies the form of real recordings."""

from __future__ import annotations

from dataclasses import dataclass, field

from .model import RankRun, Run

# A file's absolute time of the run's start, in ns since the Unix epoch.
EPOCH_NS = 1_767_200_431_222_000_000
# Newer files count from a base time that stands at their top level, in ns since the epoch.
BASE_TIME_NS = 1_767_189_312_000_000_000

_CATEGORIES = {
    "op": "cpu_op",
    "annotation": "user_annotation",
    "python": "python_function",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
}
_CATEGORIES_2021 = {
    "op": "Operator",
    "annotation": "Operator",
    "runtime": "Runtime",
    "driver": "Runtime",
    "kernel": "Kernel",
    "memcpy": "Memcpy",
    "memset": "Memset",
}

# CUPTI's callback ids ("cbid") and roctracer's ("cid") of the calls, as real recordings have them.
# A call without one here is written without.
CBIDS = {
    "cudaMalloc": 20,
    "cudaFree": 22,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaDeviceSynchronize": 165,
    "cudaLaunchKernel": 211,
    "cudaGraphLaunch": 311,
    "cudaLaunchKernelExC": 430,
}
CIDS = {
    "hipDeviceSynchronize": 48,
    "hipExtModuleLaunchKernel": 65,
    "hipFree": 69,
    "hipLaunchKernel": 107,
    "hipMalloc": 108,
    "hipMemcpyAsync": 134,
    "hipMemsetAsync": 159,
    "hipStreamWaitEvent": 200,
    "hipGraphLaunch": 215,
}
HIP_NAMES = {
    "cudaLaunchKernelExC": "hipExtModuleLaunchKernel",
    "cuModuleLoadData": "hipModuleLoadData",
}

_NVIDIA = {
    "name": "NVIDIA A100-SXM4-80GB",
    "totalGlobalMem": 85_050_261_504,
    "computeMajor": 8,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65_536,
    "regsPerMultiprocessor": 65_536,
    "warpSize": 32,
    "sharedMemPerBlock": 49_152,
    "sharedMemPerMultiprocessor": 167_936,
    "numSms": 108,
    "sharedMemPerBlockOptin": 166_912,
}
_AMD = {
    "name": "AMD Instinct MI300X",
    "totalGlobalMem": 206_141_652_992,
    "computeMajor": 9,
    "computeMinor": 4,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65_536,
    "warpSize": 64,
    "sharedMemPerBlock": 65_536,
    "numSms": 304,
    "maxSharedMemoryPerMultiProcessor": 65_536,
}


@dataclass(frozen=True)
class Dialect:
    """One form in which a recording can be written."""

    name: str
    origin_ns: int = EPOCH_NS  # added to every time
    base_time: bool = False  # times count from a base time
    whole_us: bool = False  # times are integers in us
    old: bool = False  # the categories, thread ids and arguments of 2021
    amd: bool = False
    mirrors: bool = False  # annotations are repeated on the device's streams
    collective_args: bool = False  # collective arguments stand on the kernel, too
    distributed: str = ""  # "", "rank" or "full": what distributedInfo says
    bare_list: bool = False  # the file is the list of events alone
    device_shift: int = 0  # a device's number in the file less that in the run
    categories: dict[str, str] = field(default_factory=lambda: _CATEGORIES)
    device_properties: dict[str, object] = field(default_factory=lambda: dict(_NVIDIA))


DIALECTS = {
    d.name: d
    for d in (
        Dialect("2021", whole_us=True, old=True, categories=_CATEGORIES_2021),
        Dialect("2023", distributed="rank"),
        Dialect(
            "2025",
            origin_ns=EPOCH_NS - BASE_TIME_NS,
            base_time=True,
            mirrors=True,
            collective_args=True,
            distributed="full",
        ),
        Dialect(
            "amd",
            origin_ns=EPOCH_NS - BASE_TIME_NS,
            base_time=True,
            amd=True,
            mirrors=True,
            distributed="full",
            device_shift=2,  # ROCm counts the host's CPU sockets first
            device_properties=dict(_AMD),
        ),
        Dialect("list", bare_list=True),
    )
}


def head_of(run: Run, rank: RankRun, form: Dialect) -> dict[str, object]:
    """Return what a file says before its events."""
    count = max(device for r in run.ranks for device in r.devices) + 1
    head: dict[str, object] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": i, **form.device_properties} for i in range(count)],
    }
    if form.amd:
        head |= {"roctracer_version": 4.1, "hip_runtime_version": 60443483}
    if form.distributed == "rank":
        head["distributedInfo"] = {"rank": rank.rank}
    if form.distributed == "full":
        size = run.world_size
        group = {
            "pg_name": "0",
            "pg_desc": "default_pg",
            "backend_config": "cuda:nccl",
            "pg_size": size,
            "ranks": list(range(size)),
        }
        head["distributedInfo"] = {
            "backend": "nccl",
            "rank": rank.rank,
            "world_size": size,
            "pg_count": 1,
            "pg_config": [group],
            "nccl_version": "2.26.2",
        }
    return head


def tail_of(rank: int, form: Dialect) -> dict[str, object]:
    """Return what a file says after its events."""
    tail: dict[str, object] = {"traceName": f"./rank{rank}.pt.trace.json"}
    if form.base_time:
        tail |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_TIME_NS}
    return tail


def renamed(form: Dialect, name: str) -> str:
    """Return an API call's name in a dialect, from CUDA's name."""
    if not form.amd:
        return name
    return HIP_NAMES.get(name, name.replace("cuda", "hip", 1))
