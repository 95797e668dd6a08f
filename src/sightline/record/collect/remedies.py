"""What is missing for a kind of recording, and the exact remedy, with the vendor's own page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sightline.errors import RequestError
from sightline.record.collect.plan import BACKENDS, QUESTIONS

# What each question needs; any one of the tools in a pair is enough.
NEEDS = {
    "timeline": ("gpu", "torch|nsys"),
    "kernels": ("gpu", "ncu", "counters"),
    "stalls": ("gpu", "cupti|ncu|rocprofv3|unitrace", "counters"),
    "memory": ("gpu", "torch|nsys"),
    "energy": ("gpu", "nvml"),
    "system": ("lttng|sched",),
    "lttng": ("lttng",),
    "sched": ("sched",),
    "mpi": ("mpi",),
    "torch": ("torch",),
    "jax": ("jax",),
    "nsys": ("gpu", "nsys"),
    "ncu": ("gpu", "ncu", "counters"),
    "cupti": ("gpu", "cupti"),
    "rocprofv3": ("rocprofv3",),
    "unitrace": ("unitrace",),
    "cpu": ("py-spy|perf_event|perf", "ptrace", "perf_event"),
    "nvml": ("gpu", "nvml"),
}


@dataclass(frozen=True)
class Missing:
    """One thing that is not as it must be: what to type, and whose page says so."""

    what: str
    remedy: tuple[str, ...]
    document: str


def list_missing(
    question: str, facts: dict[str, Any], *, root: bool | None = None
) -> list[Missing]:
    """All that stands in the way of a recording. Raises RequestError for an unknown question."""
    if question not in NEEDS:
        raise RequestError(
            f"there is nothing called '{question}' to record",
            why=f"there are {', '.join((*QUESTIONS, *BACKENDS))}",
        )
    is_root = os.geteuid() == 0 if root is None else root
    found: list[Missing] = []
    for need in NEEDS[question]:
        ways = [list(_CHECKS[n](facts, is_root)) for n in need.split("|")]
        if all(ways):  # none of the alternatives is fulfilled
            found += [m for way in ways for m in way]
    return found


def _gpu(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["gpus"]:
        return
    if facts["nvidia_driver"] is None:
        yield Missing(
            "no GPU was found: no driver is loaded",
            (
                "sudo apt-get install cuda-drivers   # then restart; nvidia-smi must list the GPU",
                "docker run --gpus all ...           # in a container",
            ),
            "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",
        )
    else:
        yield Missing(
            f"the driver {facts['nvidia_driver']} is loaded, but nvidia-smi lists no GPU",
            ("nvidia-smi -L", "sudo dmesg | grep -i nvrm   # what the driver says"),
            "https://docs.nvidia.com/deploy/gpu-debug-guidelines/",
        )


def _torch(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["torch"] is None:
        yield Missing(
            "torch is not installed in the Python that runs sightline (it is enough if the "
            "program's own Python has it)",
            ("pip install torch",),
            "https://pytorch.org/get-started/locally/",
        )


def _nsys(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["nsys"] is None:
        yield Missing(
            "nsys is not on the PATH",
            (
                "sudo apt-get install nsight-systems-cli   # NVIDIA's devtools or CUDA repository",
                'export PATH="/usr/local/cuda/bin:$PATH"   # where a CUDA toolkit has it',
            ),
            "https://docs.nvidia.com/nsight-systems/InstallationGuide/",
        )


def _ncu(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["ncu"] is None:
        yield Missing(
            "ncu is not on the PATH",
            (
                "sudo apt-get install nsight-compute       # NVIDIA's CUDA repository",
                'export PATH="/usr/local/cuda/bin:$PATH"   # where a CUDA toolkit has it',
            ),
            "https://docs.nvidia.com/nsight-compute/",
        )


def _cupti(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if not facts["cupti_injection"]:
        yield Missing(
            "sightline was built without the library that records through CUPTI: NVIDIA's headers "
            "were not there",
            (
                "scripts/setup                                # in a checkout: fetches them",
                "sudo apt-get install cuda-cupti-dev-13-0     # NVIDIA's CUDA repository; then",
                "pip install --force-reinstall --no-deps .    # in a checkout",
            ),
            "https://docs.nvidia.com/cupti/",
        )
    elif facts["cupti"] is None:
        yield Missing(
            "no CUPTI was found in this Python or in a CUDA toolkit (it is enough if the program "
            "has its own, as PyTorch does)",
            (
                "pip install nvidia-cuda-cupti                # CUDA 13",
                "pip install nvidia-cuda-cupti-cu12           # CUDA 12",
            ),
            "https://docs.nvidia.com/cupti/",
        )


def _rocprofv3(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["rocprofv3"] is None:
        yield Missing(
            "rocprofv3 is not on the PATH",
            ("sudo apt-get install rocprofiler-sdk     # AMD's ROCm repository",
             "export PATH=$PATH:/opt/rocm/bin"),
            "https://rocm.docs.amd.com/projects/rocprofiler-sdk/",
        )  # fmt: skip


def _unitrace(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["unitrace"] is None:
        yield Missing(
            "unitrace is not on the PATH",
            ("git clone https://github.com/intel/pti-gpu     # then build tools/unitrace",),
            "https://github.com/intel/pti-gpu/tree/master/tools/unitrace",
        )


def _counters(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["counters_need_admin"] and not root:
        yield Missing(
            "the driver gives hardware counters to root only (ERR_NVGPUCTRPERM)",
            (
                "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' \\",
                "  | sudo tee /etc/modprobe.d/nvidia-profiling.conf",
                "sudo update-initramfs -u   # Debian, Ubuntu; dracut -f on others; then restart",
                "docker run --cap-add=SYS_ADMIN ...   # instead, in a container",
            ),
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM",
        )


def _py_spy(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["py_spy"] is None:
        yield Missing(
            "py-spy, which samples Python, is not installed",
            ("pip install py-spy",),
            "https://github.com/benfred/py-spy",
        )


def _perf(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["perf"] is None:
        yield Missing(
            "perf, which samples native code, is not installed",
            (
                "sudo apt-get install linux-perf               # Debian",
                "sudo apt-get install linux-tools-$(uname -r)  # Ubuntu",
            ),
            "https://perf.wiki.kernel.org",
        )


def _ptrace(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    scope = facts["ptrace_scope"] or 0
    if scope >= 2 and not root:
        yield Missing(
            f"ptrace_scope is {scope}: py-spy may not read another process",
            (
                "sudo sysctl kernel.yama.ptrace_scope=1        # until the next start",
                "docker run --cap-add=SYS_PTRACE ...           # in a container",
            ),
            "https://docs.kernel.org/admin-guide/LSM/Yama.html",
        )


def _lttng(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts["lttng"] is None:
        yield Missing(
            "lttng, which traces user space and the kernel, is not installed",
            (
                "sudo apt-get install lttng-tools liblttng-ust-dev   # user space",
                "sudo apt-get install lttng-modules-dkms             # the kernel",
            ),
            "https://lttng.org/docs/#doc-installing-lttng",
        )


def _mpi(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts.get("mpicc") is None:
        yield Missing(
            "mpicc, which builds the recorder of MPI's calls, is not on the PATH",
            (
                "module load openmpi                           # on a cluster, or its own name",
                "sudo apt-get install libopenmpi-dev           # or libmpich-dev",
            ),
            "https://docs.open-mpi.org/en/main/building-apps/index.html",
        )


def _sched(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    yield from _perf(facts, root)
    level = facts["perf_event_paranoid"]
    if facts["perf"] is not None and not root and (level is None or level > -1):
        yield Missing(
            f"perf_event_paranoid is {level}: perf may not trace the whole system",
            (
                "sudo sysctl kernel.perf_event_paranoid=-1     # until the next start",
                "sudo sightline run --for system -- ...        # or as root",
            ),
            "https://docs.kernel.org/admin-guide/perf-security.html",
        )


def _perf_event(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    problem = facts["perf_event_problem"]
    if problem is not None:
        yield Missing(
            f"sightline may not sample CPU stacks: {problem}",
            (
                "sudo setcap cap_perfmon,cap_sys_ptrace=ep $(readlink -f $(which python3))",
                "docker run --cap-add=PERFMON ...              # in a container",
                "sudo sysctl kernel.perf_event_paranoid=1      # until the next start",
                "echo kernel.perf_event_paranoid=1 | sudo tee /etc/sysctl.d/99-perf.conf  # always",
            ),
            "https://docs.kernel.org/admin-guide/perf-security.html",
        )


def _jax(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    if facts.get("jax") is None:
        yield Missing(
            "jax is not installed in this Python",
            ("pip install jax            # or the program's own environment has it",),
            "https://docs.jax.dev/en/latest/installation.html",
        )


def _nvml(facts: dict[str, Any], root: bool) -> Iterator[Missing]:
    from sightline.record.nvml.library import Unavailable, connect_nvml

    try:
        connect_nvml()
    except Unavailable as error:
        yield Missing(
            str(error),
            (
                "nvidia-smi                 # must work: NVML comes with the driver",
                "pip install nvidia-ml-py   # the binding",
            ),
            "https://docs.nvidia.com/deploy/nvml-api/",
        )


_CHECKS = {
    "gpu": _gpu,
    "torch": _torch,
    "jax": _jax,
    "nsys": _nsys,
    "ncu": _ncu,
    "cupti": _cupti,
    "rocprofv3": _rocprofv3,
    "unitrace": _unitrace,
    "counters": _counters,
    "py-spy": _py_spy,
    "perf": _perf,
    "ptrace": _ptrace,
    "perf_event": _perf_event,
    "nvml": _nvml,
    "lttng": _lttng,
    "sched": _sched,
    "mpi": _mpi,
}
