"""The layers of a stack, from the run down to the reason why an instruction waited.

A layer is a property of a frame, never part of its name. On the CPU's side frames stand in call
order, whatever their layers; on the device's side they stand in the order of this list. A layer
that a recording does not have is absent; nothing is invented for it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One layer: its name, which side it is on, and what it is for the palette."""

    name: str
    side: str  # root, cpu, gpu or leaf
    kind: str  # names the colour, see palette.py
    doc: str


LAYERS = (
    Layer("run", "root", "run", "recording or rank"),
    Layer("process", "root", "run", "process"),
    Layer("thread", "root", "run", "CPU thread"),
    Layer("phase", "cpu", "phase", "annotation or marked step"),
    Layer("python", "cpu", "python", "Python function"),
    Layer("op", "cpu", "framework", "framework operator or module"),
    Layer("native", "cpu", "native", "native function"),
    Layer("os", "cpu", "os", "function of the operating system's kernel"),
    Layer("note", "cpu", "note", "added by sightline: [backward], [launch not recorded], ..."),
    Layer("api", "cpu", "api", "the call that launched the work"),
    Layer("device", "gpu", "device", "device and stream"),
    Layer("gpu_file", "gpu", "gpu_source", "source file of the kernel"),
    Layer("kernel", "gpu", "kernel", "kernel, copy, memset or graph launch"),
    Layer("gpu_line", "gpu", "gpu_source", "inlined function or source line"),
    Layer("instruction", "gpu", "instruction", "offset and operation"),
    Layer("stall_class", "leaf", "stall", "what kind of wait, the same words for every vendor"),
    Layer("stall_reason", "leaf", "stall", "why, in the vendor's words"),
)

INDEX = {layer.name: i for i, layer in enumerate(LAYERS)}
SIDE = {layer.name: layer.side for layer in LAYERS}

# How a range of the host_ops table is drawn.
OF_HOST_LAYER = {
    "python": "python",
    "op": "op",
    "annotation": "phase",
    "step": "phase",
    "runtime": "api",
    "driver": "api",
    "os": "native",
    "mpi": "native",
    "overhead": "note",
    "other": "native",
}

# The grade of a join between a CPU stack and device work, best first.
GRADES = ("exact", "bracket", "window", "near", "apportioned", "unmatched")

NOT_RECORDED = "[launch not recorded]"
BACKWARD = "[backward]"
"""Stands between a forward operator and the backward work that autograd did for it."""
NEARBY = "[sampled near the launch]"
"""Stands above a CPU stack that was sampled close to the launching call, and not during it."""
