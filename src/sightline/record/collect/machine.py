"""What a machine offers for recording: devices, tools, permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sightline.record.collect.backend import Fact, Facts, Way, list_backends
from sightline.record.collect.look import Look, Runner, read_output
from sightline.record.sampling.events import find_obstacle


def ask_nvml() -> dict[str, Any]:
    """Versions, GPUs that NVML reaches and those it does not, or what is wrong with NVML."""
    from sightline.record.nvml.library import Unavailable, connect_nvml, find_gpus

    answer: dict[str, Any] = {
        "gpus": [], "unreachable": [], "driver": None, "version": None, "problem": None,
    }  # fmt: skip
    try:
        nvml = connect_nvml()
        found = find_gpus(nvml)
    except Unavailable as error:
        return answer | {"problem": str(error)}

    def ask(name: str, *arguments: Any) -> Any:
        try:
            return getattr(nvml, name)(*arguments)
        except (nvml.NVMLError, AttributeError):
            return None

    driver = ask("nvmlSystemGetDriverVersion")
    for gpu in found:
        if gpu.problem is not None:
            answer["unreachable"].append(f"GPU {gpu.number} ({gpu.problem})")
            continue
        memory = ask("nvmlDeviceGetMemoryInfo", gpu.handle)
        size = "memory not known" if memory is None else f"{memory.total >> 20} MiB"
        answer["gpus"].append(f"{gpu.name}, {size}, {driver or 'driver not known'}")
    return answer | {"driver": driver, "version": ask("nvmlSystemGetNVMLVersion")}


def examine_machine(
    run: Runner = read_output,
    root: Path = Path("/"),
    ask: Callable[[], dict[str, Any]] = ask_nvml,
    try_sampling: Callable[[], str | None] = find_obstacle,
) -> dict[str, Any]:
    """Facts on the machine; null or an empty list for what is not there.

    All are found side by side: NVML and a vendor's tool take a second each where the driver has to
    start. `run`, `root`, `ask` and `try_sampling` let tests put a fake machine in place of this.
    """
    of_backends = {fact.name: fact for backend in list_backends() for fact in backend.facts}
    every = (*_DEVICES, *of_backends.values())
    with ThreadPoolExecutor(len(every) + 1) as pool:  # one each: a fact may wait for another
        look = Look(run, root, pool.submit(ask), try_sampling)
        for fact in every:
            look.facts.futures[fact.name] = pool.submit(fact.find, look)
    ordered = sorted(every, key=lambda fact: (fact.place, fact.name))
    facts = {fact.name: look.facts[fact.name] for fact in ordered}
    if not facts["unreachable_gpus"]:
        del facts["unreachable_gpus"]
    return facts


def list_recordable(facts: Facts) -> list[Way]:
    """Each kind of recording with a yes or no and the reason: first those of GPUs."""
    backends = sorted(list_backends(), key=lambda backend: not backend.is_of_gpu)
    return [*(way(facts) for backend in backends for way in backend.ways), _describe_attach(facts)]


def _describe_attach(facts: Facts) -> Way:
    why = "PyTorch that was started with KINETO_USE_DAEMON=1"
    if facts["rocprofv3"] is not None:
        why += ", ROCm with ROCP_TOOL_ATTACH=1"
    return Way("Programs that already run (attach)", True, why)


def _list_gpus(look: Look) -> list[str]:
    """NVIDIA's, then AMD's."""
    # nvidia-smi says the same a second later, is missing in many containers, and fails as a whole
    # where one GPU is lost.
    gpus = look.nvml["gpus"] or _ask_nvidia_smi(look)
    return [*gpus, *look.facts["amd_gpus"]]


def _ask_nvidia_smi(look: Look) -> list[str]:
    told = look.run(
        ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    )
    return [line.strip() for line in (told or "").splitlines() if line.strip()]


def _list_amd(look: Look) -> list[str]:
    told = look.run(["rocm-smi", "--showproductname", "--csv"])
    return [line for line in (told or "").splitlines() if line.startswith("card")]


def _list_intel(look: Look) -> list[str]:
    """Intel's GPUs that compute: those of the drivers xe and i915 (Linux, drivers/gpu/drm)."""
    found = []
    for device in sorted((look.root / "sys/class/drm").glob("card*/device")):
        driver = (device / "driver").resolve().name
        vendor = look.read(str((device / "vendor").relative_to(look.root))) or ""
        if vendor.strip() == "0x8086" and driver in ("xe", "i915"):
            found.append(f"{device.parent.name} (driver {driver})")
    return found


def _find_driver(look: Look) -> str | None:
    text = look.read("proc/driver/nvidia/version")
    match = re.search(r"Kernel Module.*?(\d+\.\d+(?:\.\d+)?)", text or "")
    return match[1] if match else look.nvml["driver"]


def _need_admin(look: Look) -> bool | None:
    """Whether the driver gives hardware counters to root only; None where it does not say."""
    told = look.read("proc/driver/nvidia/params") or ""
    match = re.search(r"RmProfilingAdminOnly: (\d)", told)
    return None if match is None else match[1] == "1"


# What is of no backend alone, each after those that it asks for.
_DEVICES = (
    Fact("amd_gpus", 50, _list_amd),
    Fact("gpus", 10, _list_gpus),
    Fact("unreachable_gpus", 11, lambda look: look.nvml["unreachable"]),
    Fact("nvidia_driver", 12, _find_driver),
    Fact("intel_gpus", 51, _list_intel),
    Fact("counters_need_admin", 150, _need_admin),
)
