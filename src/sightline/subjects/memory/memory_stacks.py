"""What call stacks of allocations say: the user's line, the module, and what the program was doing.

A stack of PyTorch has the frames of Python and, where they were recorded, of C++ or the operators.
Autograd runs the backward pass in threads of its own, whose stacks have no Python frame.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.memory_calls import find_memory_calls

SETUP, FORWARD, BACKWARD, OPTIMIZER, COPY = "setup", "forward", "backward", "optimizer", "copy"
OTHER = "other"
PHASES = pl.Enum([SETUP, FORWARD, BACKWARD, OPTIMIZER, COPY, OTHER])

# Not the user's: what is installed, Python's own, and what has no file.
_INSTALLED = re.compile(r"(?i)[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3|^<|torch[/\\]")
# torch/optim and others' optimizers, which name their files so: apex, DeepSpeed, people's own.
_OPTIMIZER = re.compile(
    r"(?i)torch[/\\]optim[/\\]|[/\\]optimizers?[/\\]|[/\\][^/\\]*optim[^/\\]*\.py$"
)
# torch/csrc/autograd: the engine that runs the backward pass; torch/autograd/graph.py calls it.
_BACKWARD = re.compile(r"autograd::(?:E|e)ngine|PythonEngine|AccumulateGrad|_engine_run_backward")
# What PyTorch's profiler writes around a step (torch/optim/optimizer.py), and for a module.
_STEP = re.compile(r"^Optimizer\.step#")
_MODULE = "nn.Module: "
# What makes or moves parameters: nn.Module and its loaders.
_SETUP = re.compile(
    r"^(?:__init__|reset_parameters|_apply|convert|load_state_dict|_load_from_state_dict"
    r"|from_pretrained|_init_weights|register_buffer|register_parameter)$"
)
# What C++ says of the operation: the node of the backward pass, else the operator.
_OPERATION = re.compile(
    r"generated::(\w+Backward\w*)|at::_ops::(\w+)::|evaluate_function: (?:\w+::)*(\w+)"
    r"|(AccumulateGrad)|^aten::(\w+)$"
)
_COPY = re.compile(r"\b_to_copy\b|\b_copy_\b|to_impl|aten::copy_|\bTHPVariable_(?:to|cuda)\b")


@dataclass(frozen=True)
class _Frame:
    text: str
    is_python: bool
    is_user: bool
    phase: str | None
    operation: str | None
    is_module: bool = False


@dataclass
class _Node:
    """What a stack is, from its outermost frame to one of its frames."""

    operation: str | None = None  # the outermost operation of C++ frames
    place: str | None = None  # the innermost line of the user's own code
    python: str | None = None  # the innermost line of any Python code
    module: str | None = None  # the innermost `forward`
    phases: frozenset[str] = frozenset()


def describe_stacks(run: Run) -> pl.DataFrame:
    """Every node of the trie: stack_id, place (function and line), module, phase.

    The place is the innermost line of the user's own code, else of any Python code, else the
    innermost function.
    """
    return run.once(_describe)


def _describe(run: Run) -> pl.DataFrame:
    frames = {row[0]: _read_frame(*row[1:]) for row in _scan_frames(run).iter_rows()}
    nodes: dict[int, _Node] = {}
    rows = []
    stacks = find_memory_calls(run).stacks
    stacks = stacks.select("stack_id", "parent_id", "frame_id").sort("stack_id")
    has_python = any(frame.is_python and not frame.is_module for frame in frames.values())
    for stack, parent, number in stacks.iter_rows():
        # A parent's number is lower than its children's.
        above = nodes.get(parent, _Node())
        frame = frames.get(number)
        node = above if frame is None else _add_frame(above, frame)
        nodes[stack] = node
        place = node.place or node.python or node.operation or (frame.text if frame else None)
        rows.append((stack, place, node.module, _find_phase(node, has_python)))
    return pl.DataFrame(
        rows,
        schema={"stack_id": pl.Int64, "place": pl.String, "module": pl.String, "phase": PHASES},
        orient="row",
    )


def _scan_frames(run: Run) -> pl.DataFrame:
    frames = find_memory_calls(run).frames
    return frames.select("frame_id", "layer", "function", "file", "line")


def _read_frame(layer: str, function: str, file: str | None, line: int | None) -> _Frame:
    if function.startswith(_MODULE):
        return _Frame(function.removeprefix(_MODULE), True, False, FORWARD, None, is_module=True)
    is_python = layer == "python"
    file = file or ""
    base = re.split(r"[/\\]", file)[-1]
    place = f"{base}:{line}" if line else base
    phase = None
    if _BACKWARD.search(function):
        phase = BACKWARD
    elif is_python and function == "zero_grad":
        phase = None  # an optimizer's file, and gradients are all that it lets go of
    elif (is_python and _OPTIMIZER.search(file)) or _STEP.search(function):
        phase = OPTIMIZER
    elif is_python and function == "forward":
        phase = FORWARD
    elif is_python and _SETUP.match(function):
        phase = SETUP
    elif not is_python and _COPY.search(function):
        phase = COPY
    found = None if is_python else _OPERATION.search(function)
    return _Frame(
        f"{function} ({place})" if place else function,
        is_python,
        is_python and bool(file) and not _INSTALLED.search(file),
        phase,
        next(filter(None, found.groups())) if found else None,
    )


def _add_frame(above: _Node, frame: _Frame) -> _Node:
    return _Node(
        above.operation or frame.operation,
        frame.text if frame.is_user else above.place,
        frame.text if frame.is_python and not frame.is_module else above.python,
        frame.text
        if frame.is_module or (frame.phase == FORWARD and frame.is_user)
        else above.module,
        above.phases | {frame.phase} if frame.phase else above.phases,
    )


def _find_phase(node: _Node, has_python: bool) -> str:
    """What the program was doing; the order matters: a backward pass may call forward again."""
    if has_python and node.python is None:
        return BACKWARD
    return next((p for p in (OPTIMIZER, BACKWARD, FORWARD, SETUP, COPY) if p in node.phases), OTHER)
