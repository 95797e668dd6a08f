"""The host: how many devices there are, networks, memory, disks, what its kernel reports."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.units import format_bytes, format_note, format_several
from sightline.health.check import FAIL, UNCHECKED, WARN, Check, Verdict
from sightline.health.node import Node

_LITTLE_DISK_PCT, _NO_DISK_PCT = 10, 3  # ours: a checkpoint or a container image fills the rest
_LITTLE_MEMORY_PCT = 5
_STUCK = 10  # gpud's component os: processes in uninterruptible sleep
_MEMORY_TOLERANCE = 0.05  # Azure NHC: check_hw_physmem with 5 %


def _judge_count(node: Node) -> Iterator[Verdict]:
    """GPUs by each way to count them, against each other and against what is expected."""
    counts = {
        name.removeprefix("gpus by "): int(value)
        for name, value in node.values.items()
        if name.startswith("gpus by ")
    }
    expected = node.expected.get("gpus")
    if not counts:
        why = node.why_missing("gpus")
        if expected is None:
            yield Verdict(UNCHECKED, why)
        else:  # what must be there and cannot be seen is not there
            yield Verdict(FAIL, f"{int(expected)} GPUs are expected, and none is seen: {why}")
        return
    said = ", ".join(f"{name} sees {count}" for name, count in counts.items())
    if len(set(counts.values())) > 1:
        yield Verdict(FAIL, f"contradiction: {said}")
    elif expected is not None and set(counts.values()) != {int(expected)}:
        yield Verdict(FAIL, f"{int(expected)} GPUs are expected: {said}")


def _judge_driver(node: Node) -> Iterator[Verdict]:
    loaded, library = node.texts["driver (kernel)"], node.texts["driver (NVML)"]
    if loaded != library:
        text = f"the kernel has driver {loaded} loaded, NVML is from {library}"
        yield Verdict(FAIL, text)


def _judge_cuda(node: Node) -> Iterator[Verdict]:
    """Within a major version any driver runs any runtime; of an older one it needs a package."""
    driver, runtime = node.texts["CUDA of the driver"], node.texts["CUDA runtime"]
    if int(runtime.split(".")[0]) > int(driver.split(".")[0]):
        text = f"CUDA {runtime} is installed, and the driver runs up to {driver}"
        yield Verdict(FAIL, text)


def _judge_nccl(node: Node) -> Iterator[Verdict]:
    nccl, runtime = node.texts["CUDA of NCCL"], node.texts["CUDA runtime"]
    if nccl != runtime.split(".")[0]:
        yield Verdict(WARN, f"NCCL is for CUDA {nccl}, the runtime is {runtime}")


def _judge_fabric_manager(node: Node) -> Iterator[Verdict]:
    manager, driver = node.texts["fabric manager"], node.texts["driver (NVML)"]
    if manager != driver:
        yield Verdict(FAIL, f"the fabric manager has version {manager}, the driver {driver}")


def _judge_ports(node: Node) -> Iterator[Verdict]:
    if not node.ports:
        is_expected = node.expected.keys() & {"ib", "ports"}
        yield Verdict(FAIL if is_expected else UNCHECKED, node.why_missing("ports"))
        return
    fastest = max(port.gbit_per_s or 0 for port in node.ports)
    least = node.expected.get("ib", fastest)
    for port in node.ports:
        if port.state != "ACTIVE":
            yield Verdict(FAIL, f"is {port.state} ({port.physical})", port.name)
        elif port.gbit_per_s is not None and port.gbit_per_s < least:
            text = f"runs at {port.gbit_per_s:.0f} Gbit/s instead of {least:.0f}"
            yield Verdict(FAIL, text, port.name)
    wanted = node.expected.get("ports")
    if wanted is not None and len(node.ports) != int(wanted):
        yield Verdict(FAIL, f"{format_several(len(node.ports), 'port')} instead of {wanted:.0f}")


def _judge_port_errors(node: Node) -> Iterator[Verdict]:
    if not node.ports:
        yield Verdict(UNCHECKED, node.why_missing("ports"))
        return
    for port in node.ports:
        flaps = port.counters.get("link_downed", 0)
        lost = port.counters.get("link_error_recovery", 0) + port.counters.get("symbol_error", 0)
        if flaps:
            yield Verdict(WARN, f"the link went down {format_several(flaps, 'time')}", port.name)
        if lost:
            yield Verdict(WARN, format_several(lost, "symbol or recovery error"), port.name)


def _judge_peer_memory(node: Node) -> Iterator[Verdict]:
    if node.ports and not node.values["peermem"]:
        yield Verdict(WARN, "nvidia_peermem is not loaded: RDMA goes through host memory")


def _judge_memory(node: Node) -> Iterator[Verdict]:
    total, free = node.values["memory_total"], node.values["memory_available"]
    expected = node.expected.get("memory")
    if expected is not None and abs(total - expected) > _MEMORY_TOLERANCE * expected:
        text = f"{format_bytes(int(total))} of memory instead of {format_bytes(int(expected))}"
        yield Verdict(FAIL, text)
    if free * 100 < _LITTLE_MEMORY_PCT * total:
        yield Verdict(WARN, f"{format_bytes(int(free))} of {format_bytes(int(total))} are free")


def _judge_huge_pages(node: Node) -> Iterator[Verdict]:
    wanted = node.expected.get("hugepages")
    if wanted is not None and node.values["huge_pages"] < wanted:
        yield Verdict(FAIL, f"{node.values['huge_pages']:.0f} huge pages instead of {wanted:.0f}")


def _judge_disks(node: Node) -> Iterator[Verdict]:
    disks = {
        name.removeprefix("disk free "): value
        for name, value in node.values.items()
        if name.startswith("disk free ")
    }
    if not disks:
        yield Verdict(UNCHECKED, node.why_missing("disks"))
    for place, free in disks.items():
        if free < _LITTLE_DISK_PCT:
            state = FAIL if free < _NO_DISK_PCT else WARN
            yield Verdict(state, f"{free:.0f} % of the disk is free", place)


def _judge_stuck(node: Node) -> Iterator[Verdict]:
    count = int(node.values["stuck_processes"])
    if count >= _STUCK:
        yield Verdict(
            WARN,
            format_note(count, "processes wait in the kernel and cannot be ended"),
        )


def _judge_kernel(node: Node) -> Iterator[Verdict]:
    counts: dict[tuple[str, str], int] = {}
    for event in node.events:
        if event.kind in _KERNEL:
            key = event.kind, event.text
            counts[key] = counts.get(key, 0) + 1
    for (kind, text), count in counts.items():
        times = f" ({format_several(count, 'time')})" if count > 1 else ""
        yield Verdict(_KERNEL[kind], f"{text}{times}")


_KERNEL = {"machine-check": FAIL, "pcie-error": WARN, "out-of-memory": WARN}

CHECKS = (
    Check(
        "gpu-count",
        "GPUs by NVML, by PCIe and as expected (--expect gpus=8)",
        "any difference",
        "Azure NHC, check_gpu_count",
        "look for XID 79; check the slot; reboot",
        judge_node=_judge_count,
    ),
    Check(
        "driver-version",
        "the loaded driver and its library",
        "any difference",
        "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        "reboot, or reload the driver: it was updated under running programs",
        ("driver (kernel)", "driver (NVML)"),
        judge_node=_judge_driver,
    ),
    Check(
        "cuda-version",
        "CUDA as installed and as the driver runs it",
        "a newer major version than the driver's",
        "CUDA Compatibility: minor version compatibility",
        "update the driver, or install NVIDIA's cuda-compat package",
        ("CUDA of the driver", "CUDA runtime"),
        judge_node=_judge_cuda,
    ),
    Check(
        "nccl-version",
        "NCCL and CUDA's runtime, as this Python has them",
        "another major version of CUDA",
        "NCCL's packages are built for one major version of CUDA",
        "pip install nvidia-nccl-cuN of the runtime's N",
        ("CUDA of NCCL", "CUDA runtime"),
        judge_node=_judge_nccl,
    ),
    Check(
        "fabric-manager-version",
        "fabric manager and driver",
        "any difference",
        "NVIDIA Fabric Manager user guide: both must be of one version",
        "install the fabric manager of the driver's version",
        ("fabric manager", "driver (NVML)"),
        judge_node=_judge_fabric_manager,
    ),
    Check(
        "infiniband",
        "state and rate of InfiniBand and RoCE ports",
        "not active, or slower than the fastest sibling (--expect ib=400, ports=8)",
        "Azure NHC, check_hw_ib",
        "check cable, transceiver and switch port",
        judge_node=_judge_ports,
    ),
    Check(
        "infiniband-errors",
        "links that went down, symbol errors",
        "any since the counters were reset",
        "Azure NHC, check_ib_link_flapping; gpud, component infiniband",
        "clean or replace the cable; perfquery -x shows the counters",
        judge_node=_judge_port_errors,
    ),
    Check(
        "rdma",
        "whether adapters reach GPU memory",
        "ports without nvidia_peermem",
        "gpud, component peermem",
        "modprobe nvidia_peermem   (unless DMA-BUF is used)",
        ("peermem",),
        judge_node=_judge_peer_memory,
    ),
    Check(
        "memory",
        "the host's memory",
        "5 % off what is expected (--expect memory=2TB); 5 % free",
        "Azure NHC, check_hw_physmem",
        "look for machine checks; end what is left of jobs",
        ("memory_total", "memory_available"),
        judge_node=_judge_memory,
    ),
    Check(
        "huge-pages",
        "huge pages that are set up",
        "fewer than expected (--expect hugepages=1024)",
        "Linux: Documentation/admin-guide/mm/hugetlbpage.rst",
        "sysctl vm.nr_hugepages=N",
        ("huge_pages",),
        judge_node=_judge_huge_pages,
    ),
    Check(
        "disk",
        "room on the disks",
        "10 % free warns, 3 % fails",
        "ours",
        "remove what old jobs and images left",
        judge_node=_judge_disks,
    ),
    Check(
        "stuck-processes",
        "processes in uninterruptible sleep",
        f"{_STUCK}",
        "gpud, component os",
        "look for a file system that does not answer; reboot",
        ("stuck_processes",),
        judge_node=_judge_stuck,
    ),
    Check(
        "kernel-errors",
        "machine checks, PCIe errors, memory that ran out",
        "a machine check fails, the others warn",
        "Linux kernel log",
        "have processor and memory examined; reseat the device; give the job less memory",
        ("kernel_log",),
        judge_node=_judge_kernel,
    ),
)
