"""Advice in the words of the program at hand: its framework's options, its vendor's tools."""

from __future__ import annotations

import re

from sightline.model.run import Run
from sightline.timeline.programs import recognise_program

# HIP's API has CUDA's names under its own prefix (HIP porting guide); ROCm's variables and tools
# beside NVIDIA's (ROCm documentation, "GPU isolation techniques"; PyTorch, "HIP (ROCm) semantics",
# where expandable_segments and CUDA's module loading have no counterpart that is documented).
_AMD = (
    (r"\bCUDA graph", "HIP graph"),
    (r"\bcuda(?=[A-Z])", "hip"),
    (r"\bCUDA_VISIBLE_DEVICES\b", "HIP_VISIBLE_DEVICES"),
    (r"; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True[^;]*", ""),
    (r"; CUDA_MODULE_LOADING=EAGER[^;]*", ""),
    (r"ncu --set full  \(AMD: rocprof-compute profile\)", "rocprof-compute profile"),
    (
        r"ncu --set full -k regex:<part of its name> -c 1 \.\.\.",
        "rocprof-compute profile -k <part of its name>",
    ),
    (r"nvidia-smi topo -m\b", "rocm-smi --showtopo"),
    (r"\bfirst CUDA call\b", "first HIP call"),
)
_BY_VENDOR = {"amd": _AMD}


def choose_fix(run: Run, usual: str, **others: str) -> str:
    """The advice for the run's framework (`pytorch`, `vllm`, `native` …), or the usual one."""
    return others.get(recognise_program(run).framework, usual)


def name_for_vendor(run: Run, text: str) -> str:
    """The text with the tools, calls and variables that the run's vendor has."""
    for pattern, own in _BY_VENDOR.get(recognise_program(run).vendor or "", ()):
        text = re.sub(pattern, own, text)
    return text
