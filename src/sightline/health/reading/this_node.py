"""This machine: NVML, its kernel log, /sys and /proc, amd-smi, xpu-smi, DCGM diagnostics."""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sightline.core.text import make_printable
from sightline.errors import SightlineError
from sightline.health.node import Gpu, Node
from sightline.health.reading.bandwidth import measure_bandwidth
from sightline.health.reading.host import read_host
from sightline.health.reading.kernel import read_kernel_log
from sightline.health.reading.nvml import read_nvml
from sightline.health.reading.programs import run_program
from sightline.health.reading.recordings import merge_nodes, read_recordings
from sightline.health.reading.torch_tests import measure_compute

# Tools whose output sightline reads as a recording.
_AMD = ("amd-smi", "metric", "--json")
_INTEL = ("xpu-smi", "health", "-l", "-j")
_INTEL_NAMES = ("xpu-smi", "discovery", "-j")
# The level of DCGM's suite, and for how long: its guide says seconds, 2 and 15 minutes.
_DIAGNOSTICS = {"medium": ("2", 600.0), "long": ("3", 3600.0)}


def read_this_node(level: str = "quick", root: Path = Path("/")) -> Node:
    """All that can be known of this machine at a level."""
    node = Node(platform.node())
    read_nvml(node)
    read_kernel_log(node, root)
    if not node.gpus:
        node = merge_nodes([node, _read_tool(_AMD, "amd-smi is not installed", "amd")])
    if not node.gpus:
        intel = _read_tool(_INTEL, "xpu-smi is not installed", "intel")
        intel.gpus = _list_intel_gpus(run_program(_INTEL_NAMES) or "")
        if intel.gpus:
            intel.values["gpus by xpu-smi"] = float(len(intel.gpus))
        node = merge_nodes([node, intel])
    read_host(node, root)
    if level in _DIAGNOSTICS:
        measure_bandwidth(node)
        measure_compute(node)
        suite, limit_s = _DIAGNOSTICS[level]
        command = ("dcgmi", "diag", "-r", suite, "--json")
        why = "dcgmi is not installed, or its diagnostics did not run"
        node = merge_nodes([node, _read_tool(command, why, "nvidia", limit_s)])
    return node


def _read_tool(words: Sequence[str], why: str, vendor: str, limit_s: float = 30.0) -> Node:
    """What a tool prints, read as the recording that it is."""
    from sightline.opening.run import open_run

    text = run_program(words, limit_s)
    if not text:
        return Node(missing={words[0]: why})
    with tempfile.TemporaryDirectory(prefix="sightline-") as folder:
        path = Path(folder) / f"{words[0]}.json"
        path.write_text(text, encoding="utf-8")
        try:
            node = read_recordings(open_run([str(path)]))
        except SightlineError as error:
            return Node(missing={words[0]: f"the answer of {words[0]} was not understood: {error}"})
    for gpu in node.gpus:
        gpu.vendor = vendor
    node.values.pop("kernel_log", None)
    if node.values.pop("gpus by the recording", None) and words[0] == "amd-smi":
        node.values["gpus by amd-smi"] = float(len(node.gpus))
    return node


def _list_intel_gpus(text: str) -> list[Gpu]:
    """GPUs of `xpu-smi discovery -j`; none where it says something else."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = document.get("device_list") if isinstance(document, dict) else None
    return [
        Gpu(
            number,
            make_printable(str(one.get("device_name") or "")),
            make_printable(str(one.get("uuid") or "")),
            make_printable(str(one.get("pci_bdf_address") or "")),
            vendor="intel",
        )
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict) and isinstance(number := one.get("device_id"), int)
    ]
