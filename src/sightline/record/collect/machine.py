"""What a machine offers for recording: devices, tools, permissions."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.record.collect.cupti import find_injection, list_cuptis
from sightline.record.sampling.events import find_obstacle

TIMEOUT_S = 10  # nvidia-smi of a machine in trouble can hang for minutes

Runner = Callable[[list[str]], str | None]


@dataclass(frozen=True)
class Way:
    """One kind of recording, and whether it can be made here."""

    what: str
    possible: bool
    why: str


def find_program(name: str) -> str | None:
    """A program on the PATH, or beside the Python that runs sightline."""
    beside = Path(sysconfig.get_path("scripts")) / name
    return shutil.which(name) or (str(beside) if beside.exists() else None)


def read_output(command: list[str]) -> str | None:
    """What a program prints, or None where it is missing, fails or hangs."""
    program = find_program(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603  # fixed arguments, no shell
            [program, *command[1:]], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


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

    `run`, `root`, `ask` and `try_sampling` let tests put a fake machine in place of this one.
    """
    nvml = ask()
    smi = run(
        ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    )
    # nvidia-smi is missing in many containers, and fails as a whole where one GPU is lost.
    gpus = [line.strip() for line in (smi or "").splitlines() if line.strip()] or nvml["gpus"]
    rocm = run(["rocm-smi", "--showproductname", "--csv"])
    amd = [line for line in (rocm or "").splitlines() if line.startswith("card")]
    gpus += amd
    rocprofv3 = _version(run(["rocprofv3", "--version"]))
    lost = {"unreachable_gpus": nvml["unreachable"]} if nvml["unreachable"] else {}
    return {
        "gpus": gpus,
        **lost,
        "nvidia_driver": _driver(root) or nvml["driver"],
        "nvml": nvml["version"],
        "nvml_problem": nvml["problem"],
        "nsys": _version(run(["nsys", "--version"])),
        "ncu": _version(run(["ncu", "--version"])),
        "amd_gpus": amd,
        "intel_gpus": _list_intel(root),
        "rocprofv3": rocprofv3,
        "amd_sampling": _find_sampling(run) if amd and rocprofv3 is not None else None,
        "unitrace": _version(run(["unitrace", "--version"])),
        "perf": _version(run(["perf", "--version"])),
        "lttng": _version(run(["lttng", "--version"])),
        "lttng_kernel": run(["modinfo", "lttng_tracer"]) is not None,
        "mpicc": find_program("mpicc"),
        "py_spy": _version(run(["py-spy", "--version"])),
        "torch": _installed("torch"),
        "jax": _installed("jax"),
        "cupti": next(iter(list_cuptis(root)), None),
        "cupti_injection": find_injection() is not None,
        "counters_need_admin": _admin_only(root),
        "perf_event_problem": try_sampling(),
        "perf_event_paranoid": _number(root / "proc/sys/kernel/perf_event_paranoid"),
        "ptrace_scope": _number(root / "proc/sys/kernel/yama/ptrace_scope"),
    }


def list_recordable(facts: dict[str, Any]) -> list[Way]:
    """Each kind of recording with a yes or no and the reason."""
    gpu = bool(facts["gpus"])
    return [
        _torch(facts, gpu),
        _vendor(facts, "nsys", "CUDA timeline (Nsight Systems)", gpu),
        _ncu(facts, gpu),
        _cupti(facts, gpu),
        _vendor(facts, "rocprofv3", "ROCm timeline (rocprofv3)", bool(facts["amd_gpus"])),
        _vendor(facts, "unitrace", "Intel GPU timeline (unitrace)", bool(facts["intel_gpus"])),
        _nvml(facts),
        _perf_event(facts),
        _perf(facts),
        _py_spy(facts),
        _mpi(facts),
        _attach(facts),
    ]


def _torch(facts: dict[str, Any], gpu: bool) -> Way:
    what = "PyTorch timeline"
    if facts["torch"] is None:
        return Way(what, False, "torch is not installed in this Python")
    if not gpu:
        return Way(what, True, "the CPU side only: no GPU was found")
    return Way(what, True, "torch.profiler, with CPU and CUDA activities")


def _vendor(facts: dict[str, Any], tool: str, what: str, gpu: bool) -> Way:
    if facts[tool] is None:
        return Way(what, False, f"{tool} is not on the PATH")
    return Way(what, gpu, facts[tool] if gpu else f"{tool} is installed, but no GPU was found")


def _ncu(facts: dict[str, Any], gpu: bool) -> Way:
    way = _vendor(facts, "ncu", "Kernel counters (Nsight Compute)", gpu)
    if way.possible and facts["counters_need_admin"]:
        remedy = (
            "only for root: the driver restricts counters "
            "(NVIDIA ERR_NVGPUCTRPERM page: NVreg_RestrictProfilingToAdminUsers=0)"
        )
        return Way(way.what, True, remedy)
    return way


def _cupti(facts: dict[str, Any], gpu: bool) -> Way:
    what = "Timeline and stalls (CUPTI)"
    if not facts["cupti_injection"]:
        return Way(what, False, "sightline was built without CUPTI's headers")
    if not gpu:
        return Way(what, False, "sightline's library is installed, but no GPU was found")
    where = facts["cupti"] or "the program's own CUPTI, if it has one"
    if facts["counters_need_admin"]:
        where += "; stalls only for root (ERR_NVGPUCTRPERM)"
    return Way(what, True, where)


def _nvml(facts: dict[str, Any]) -> Way:
    what = "GPU power, clocks, energy (NVML)"
    if facts["nvml"] is None:
        return Way(what, False, facts["nvml_problem"] or "NVML does not say its version")
    lost = facts.get("unreachable_gpus", [])
    reach = f"; it does not reach {', '.join(lost)}" if lost else ""
    return Way(what, bool(facts["gpus"]), facts["nvml"] + reach)


def _perf_event(facts: dict[str, Any]) -> Way:
    what = "CPU stacks (sightline's own)"
    problem = facts["perf_event_problem"]
    if problem is not None:
        return Way(what, False, problem)
    return Way(what, True, "perf_event; Python functions from Python 3.12 on")


def _perf(facts: dict[str, Any]) -> Way:
    what = "CPU samples (perf)"
    level = facts["perf_event_paranoid"]
    if facts["perf"] is None:
        return Way(what, False, "perf is not on the PATH")
    # Documentation/admin-guide/sysctl/kernel.rst: above 2 unprivileged use is refused (Debian: 3).
    if level is not None and level > 2:
        return Way(what, False, f"perf_event_paranoid is {level}: root, or set it to 1")
    return Way(what, True, facts["perf"])


def _py_spy(facts: dict[str, Any]) -> Way:
    what = "Python stacks from outside (py-spy)"
    if facts["py_spy"] is None:
        return Way(what, False, "py-spy is not installed:  pip install py-spy")
    # Documentation/admin-guide/LSM/Yama.rst: 1 allows children, 2 and 3 need root or nothing.
    if (facts["ptrace_scope"] or 0) >= 1:
        return Way(what, True, "programs it starts itself; others need root (ptrace_scope)")
    return Way(what, True, facts["py_spy"])


def _mpi(facts: dict[str, Any]) -> Way:
    what = "MPI's calls (any MPI)"
    if facts.get("mpicc") is None:
        return Way(what, False, "mpicc is not on the PATH: sudo apt-get install libopenmpi-dev")
    return Way(what, True, "programs in C, C++ and mpi4py that mpirun, mpiexec or srun start")


def _attach(facts: dict[str, Any]) -> Way:
    why = "PyTorch that was started with KINETO_USE_DAEMON=1"
    if facts["rocprofv3"] is not None:
        why += ", ROCm with ROCP_TOOL_ATTACH=1"
    return Way("Programs that already run (attach)", True, why)


def _list_intel(root: Path) -> list[str]:
    """Intel's GPUs that compute: those of the drivers xe and i915 (Linux, drivers/gpu/drm)."""
    found = []
    for device in sorted((root / "sys/class/drm").glob("card*/device")):
        driver = (device / "driver").resolve().name
        if (_read(device / "vendor") or "").strip() == "0x8086" and driver in ("xe", "i915"):
            found.append(f"{device.parent.name} (driver {driver})")
    return found


def _find_sampling(run: Runner) -> str | None:
    """How AMD's GPUs can be sampled: stochastic, which tells stalls, before host_trap."""
    told = run(["rocprofv3", "--list-avail"]) or ""
    for method in ("stochastic", "host_trap"):
        if f"ROCPROFILER_PC_SAMPLING_METHOD_{method.upper()}" in told:
            return method
    return None


def _driver(root: Path) -> str | None:
    text = _read(root / "proc/driver/nvidia/version")
    match = re.search(r"Kernel Module.*?(\d+\.\d+(?:\.\d+)?)", text or "")
    return match[1] if match else None


def _admin_only(root: Path) -> bool | None:
    match = re.search(
        r"RmProfilingAdminOnly: (\d)", _read(root / "proc/driver/nvidia/params") or ""
    )
    return None if match is None else match[1] == "1"


def _version(text: str | None) -> str | None:
    if text is None:
        return None
    match = re.search(r"\d+\.\d+[\w.\-]*", text)
    return match[0] if match else text.splitlines()[0] if text else ""


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _number(path: Path) -> int | None:
    text = (_read(path) or "").strip()
    return int(text) if text.lstrip("-").isdecimal() else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
