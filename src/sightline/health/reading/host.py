"""The host by files of /sys and /proc; `root` is another folder in tests."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sightline.health.node import Node, Port
from sightline.health.reading.programs import run_program

_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
# PCI classes of GPUs: VGA, 3D controller, processing accelerator (pci.ids).
_CLASSES = ("0x0300", "0x0302", "0x1200")
_COUNTERS = ("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors")
_DISKS = ("/", "/tmp", "/var", "/dev/shm")  # noqa: S108  # only asked how full they are
_DRIVER = re.compile(r"(?:Module|Kernel Module)[^\n]*?\s(\d{3}\.\d+(?:\.\d+)?)\s")
_VERSION = re.compile(r"(\d{3}\.\d+(?:\.\d+)?)")


def read_host(node: Node, root: Path = Path("/")) -> None:
    """All that its files say, into the node."""
    _count_gpus(node, root)
    _read_ports(node, root)
    _read_versions(node, root)
    _read_packages(node)
    _read_memory(node, root)
    _read_processes(node, root)
    _read_disks(node, root)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _count_gpus(node: Node, root: Path) -> None:
    """GPUs as PCIe has them: what NVML no longer sees is still there.

    Intel's count where xpu-smi named some: a processor's own graphics is on the bus, too.
    """
    counted = {"nvidia", "amd"} | {gpu.vendor for gpu in node.gpus}
    folder = root / "sys" / "bus" / "pci" / "devices"
    counts: dict[str, int] = {}
    for device in sorted(folder.glob("*")) if folder.is_dir() else ():
        vendor = _VENDORS.get(_read(device / "vendor") or "")
        if vendor in counted and (_read(device / "class") or "")[:6] in _CLASSES:
            counts[vendor] = counts.get(vendor, 0) + 1
    if counts.get("nvidia") and not node.gpus:
        # The driver does not show what the bus has: the worst of all contradictions.
        node.values.setdefault("gpus by NVML", 0.0)
    vendors = {gpu.vendor for gpu in node.gpus} or counts.keys() or {"nvidia"}
    seen = "nvidia" if "nvidia" in vendors else next(iter(vendors))
    if counts or "gpus by NVML" in node.values:
        node.values["gpus by PCIe"] = float(counts.get(seen, 0))
    if not counts and not node.gpus:
        node.missing.setdefault("gpus", "there is no GPU on the PCI bus")


def _read_ports(node: Node, root: Path) -> None:
    folder = root / "sys" / "class" / "infiniband"
    for port in sorted(folder.glob("*/ports/*")) if folder.is_dir() else ():
        rate = re.match(r"([\d.]+)", _read(port / "rate") or "")
        counters = {}
        for name in _COUNTERS:
            text = _read(port / "counters" / name)
            if text is not None and text.isdecimal():
                counters[name] = int(text)
        node.ports.append(
            Port(
                f"{port.parents[1].name}:{port.name}",
                (_read(port / "state") or "unknown").rpartition(": ")[2],
                (_read(port / "phys_state") or "unknown").rpartition(": ")[2],
                float(rate[1]) if rate else None,
                counters,
            )
        )
    if not node.ports:
        node.missing["ports"] = "there is no InfiniBand or RoCE port (/sys/class/infiniband)"
    modules = root / "sys" / "module"
    if node.ports and modules.is_dir():
        node.values["peermem"] = float((modules / "nvidia_peermem").exists())
    else:
        node.missing["peermem"] = node.missing.get("ports", "no /sys/module")


def _read_versions(node: Node, root: Path) -> None:
    text = _read(root / "proc" / "driver" / "nvidia" / "version")
    found = _DRIVER.search(text) if text else None
    if found:
        node.texts["driver (kernel)"] = found[1]
    else:
        node.missing["driver (kernel)"] = "NVIDIA's driver is not loaded"
    manager = run_program(("nv-fabricmanager", "--version"))
    version = _VERSION.search(manager) if manager else None
    if version:
        node.texts["fabric manager"] = version[1]
    else:
        node.missing["fabric manager"] = "nv-fabricmanager is not installed"


# Python's packages of CUDA's runtime and of NCCL, with the CUDA that each is for.
_RUNTIME = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?")
_NCCL = re.compile(r"nvidia-nccl-cu(\d+)")


def _read_packages(node: Node) -> None:
    """CUDA's runtime and NCCL as this Python has them, else the toolkit on the PATH."""
    from importlib.metadata import distributions

    for package in distributions():
        name = (package.metadata["Name"] or "").lower().replace("_", "-")
        if _RUNTIME.fullmatch(name):
            node.texts["CUDA runtime"] = ".".join(package.version.split(".")[:2])
        elif found := _NCCL.fullmatch(name):
            node.texts["CUDA of NCCL"] = found[1]
    if "CUDA runtime" not in node.texts:
        told = run_program(("nvcc", "--version"))
        release = re.search(r"release (\d+\.\d+)", told) if told else None
        if release:
            node.texts["CUDA runtime"] = release[1]
    for fact in ("CUDA runtime", "CUDA of NCCL"):
        if fact not in node.texts:
            node.missing[fact] = "neither this Python nor the PATH has it"


def _read_memory(node: Node, root: Path) -> None:
    text = _read(root / "proc" / "meminfo") or ""
    facts = {
        "memory_total": ("MemTotal", 1024),
        "memory_available": ("MemAvailable", 1024),
        "huge_pages": ("HugePages_Total", 1),
    }
    for fact, (name, scale) in facts.items():
        found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
        if found:
            node.values[fact] = float(int(found[1]) * scale)
        else:
            node.missing[fact] = "/proc/meminfo does not say it"


def _read_processes(node: Node, root: Path) -> None:
    """How many wait in the kernel, and the state of those that hold a GPU."""
    folder = root / "proc"
    states: dict[int, str] = {}
    for stat in folder.glob("[0-9]*/stat"):
        text = _read(stat)
        # The name, in parentheses, may hold anything; the state stands behind it (proc(5)).
        rest = text.rpartition(")")[2].split() if text else []
        if rest and stat.parent.name.isdecimal():
            states[int(stat.parent.name)] = rest[0]
    if not states:
        node.missing["stuck_processes"] = "/proc cannot be read"
        return
    node.values["stuck_processes"] = float(sum(state == "D" for state in states.values()))
    # Processes of other PID namespaces (containers) have no number here: nothing is known of them.
    is_host = 2 in states and _read(folder / "2" / "comm") == "kthreadd"
    for gpu in node.gpus:
        for pid in gpu.processes:
            if pid in states or is_host:
                node.texts[f"process {pid}"] = states.get(pid, "gone")


def _read_disks(node: Node, root: Path) -> None:
    for place in _DISKS:
        path = root / place.lstrip("/")
        try:
            told = os.statvfs(path)
        except OSError:
            continue
        if told.f_blocks:
            node.values[f"disk free {place}"] = told.f_bavail / told.f_blocks * 100
    if not any(name.startswith("disk free ") for name in node.values):
        node.missing["disks"] = "no file system could be asked"
