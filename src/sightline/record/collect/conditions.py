"""Under which conditions a program ran: what was fixed and what was not. Nothing is changed here.

Only what is named below is read of the environment, and no value that could be a secret or a name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.record.nvml import library
from sightline.record.nvml.library import Unavailable, connect_nvml

# Settings that change how a GPU program runs, and whose values name nobody.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "NCCL_ALGO", "NCCL_PROTO",
    "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_SHM_DISABLE", "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip


def read_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings above that are set."""
    known = os.environ if variables is None else variables
    return {name: known[name][:200] for name in VARIABLES if name in known}


def read_host(root: Path = Path("/")) -> dict[str, Any]:
    """What is fixed of the CPUs: governor, boost, and how many this process may use."""
    cpus = root / "sys/devices/system/cpu"
    boost = _text(cpus / "cpufreq/boost")
    no_turbo = _text(cpus / "intel_pstate/no_turbo")
    return {
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "governor": _text(cpus / "cpu0/cpufreq/scaling_governor"),
        "boost": None if boost is None and no_turbo is None else boost == "1" or no_turbo == "0",
    }


def list_gpus() -> list[dict[str, Any]]:
    """What is fixed of each NVIDIA GPU; an empty list where NVML is not there."""
    try:
        nvml = connect_nvml()
        gpus = library.find_gpus(nvml)
    except Unavailable:
        return []
    found = []
    for gpu in gpus:

        def ask(name: str, *arguments: Any, gpu: library.Gpu = gpu) -> Any:
            if gpu.problem is not None:
                return None
            try:
                return getattr(nvml, name)(gpu.handle, *arguments)
            except (nvml.NVMLError, AttributeError):
                return None

        cap, default = (
            ask("nvmlDeviceGetEnforcedPowerLimit"),
            ask("nvmlDeviceGetPowerManagementDefaultLimit"),
        )
        found.append(
            {
                "name": gpu.name,
                "problem": gpu.problem,
                "persistence": _yes(ask("nvmlDeviceGetPersistenceMode")),
                "power_cap_w": None if cap is None else cap / 1e3,
                "power_cap_default_w": None if default is None else default / 1e3,
                "application_clock_mhz": ask("nvmlDeviceGetApplicationsClock", 1),
                "default_application_clock_mhz": ask("nvmlDeviceGetDefaultApplicationsClock", 1),
                "max_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", 1),
            }
        )
    return found


def list_notes(
    host_facts: dict[str, Any], gpu_facts: Sequence[dict[str, Any]], changed: Sequence[str] = ()
) -> list[dict[str, str]]:
    """What was fixed and what was not, as sentences of the report."""
    said = []
    for number, gpu in enumerate(gpu_facts):
        if gpu.get("problem"):
            said.append(f"GPU {number}: NVML cannot reach it ({gpu['problem']})")
            continue
        parts = [{True: "persistence on", False: "persistence off"}.get(gpu["persistence"], "")]
        if gpu["power_cap_w"] is not None:
            cap, default = gpu["power_cap_w"], gpu["power_cap_default_w"]
            lowered = default is not None and cap != default
            parts.append(
                f"power cap {cap:.0f} W" + (f" (default {default:.0f} W)" if lowered else "")
            )
        set_to, default = gpu["application_clock_mhz"], gpu["default_application_clock_mhz"]
        if set_to is None:
            parts.append("whether clocks are locked: NVML does not say")
        elif set_to != default:
            parts.append(f"application clock set to {set_to} MHz")
        else:
            parts.append("application clock at its default")
        said.append(f"GPU {number}: " + ", ".join(p for p in parts if p))
    governor = host_facts.get("governor")
    boost = {True: "boost on", False: "boost off"}.get(host_facts.get("boost"), "boost unknown")  # type: ignore[arg-type]
    said.append(f"CPU: governor {governor or 'unknown'}, {boost}, {host_facts.get('cpus')} usable")
    what = ", ".join(changed) or "sightline changed no clock and no limit"
    return [
        {
            "kind": "repeatability",
            "severity": "info",
            "text": f"{what}; as found: " + "; ".join(said),
        }
    ]


def _yes(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
