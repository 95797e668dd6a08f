"""Programs of operators as short lists, each of which launches a kernel of 100 µs on an H100."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.core.model.run import Run
from support.traces import PID, TID, Event, host, kernel, opened

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}
KERNEL_US = 100


@dataclass(frozen=True)
class T:
    """A tensor among the arguments: its shape, type and strides (None: contiguous)."""

    shape: Sequence[int]
    dtype: str = "float"
    strides: Sequence[int] | None = None


@dataclass(frozen=True)
class Op:
    """An operator or another range, its arguments (a list: a tensor of floats; a text: a value)."""

    name: str
    args: Sequence[Any] = ()
    inside: Sequence[Op] = ()  # with some, they launch and it does not
    kernel: str | None = "kernel"
    category: str = "cpu_op"
    sequence: int | None = None
    backward: bool = False  # on autograd's thread


def op(name: str, *args: Any, **more: Any) -> Op:
    """An operator that launches a kernel."""
    return Op(name, args, **more)


def around(name: str, *inside: Op, **more: Any) -> Op:
    """A range that launches nothing by itself."""
    return Op(name, inside=inside, kernel=None, **more)


def backward(node: str, sequence: int, *inside: Op) -> Op:
    """The backward node of the operator with this number, with its operators."""
    name = f"autograd::engine::evaluate_function: {node}"
    return Op(name, inside=inside, kernel=None, sequence=sequence, backward=True)


def run_of(folder: Path, *program: Op, **header: Any) -> Run:
    """The run of these operators, their kernels one after another behind all launches."""
    events: list[Event] = []
    at = 0
    for item in program:
        at = _lay(item, at, events, TID + 1 if item.backward else TID)
    launched = sum("correlation" in event["args"] for event in events)
    begin = at + 1000
    work = [e for e in events if e["name"] in ("cudaLaunchKernel", "cudaMemcpyAsync")]
    for i, launch in enumerate(work):
        name, number = launch["args"].pop("runs"), launch["args"]["correlation"]
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        size = {"bytes": 1 << 20} if cat == "gpu_memcpy" else {}
        events.append(kernel(name, begin + KERNEL_US * i, KERNEL_US, number, cat=cat, **size))
    assert launched == len(work)
    return opened(folder, events, deviceProperties=[H100], **header)


def _lay(item: Op, at: int, events: list[Event], tid: int) -> int:
    """Write an operator that begins at this time, and all in it; return its end."""
    place = len(events)
    events.append({})
    end = at + 1
    for child in item.inside:
        end = _lay(child, end, events, tid)
    if item.kernel and not item.inside:
        api = "cudaMemcpyAsync" if item.kernel.startswith("Memcpy") else "cudaLaunchKernel"
        told = {"correlation": 1000 + place, "runs": item.kernel}
        events.append(host("cuda_runtime", api, end, 2, tid=tid, **told))
        end += 3
    args: dict[str, Any] = _write_arguments(item.args)
    if item.sequence is not None:
        forward = {"Fwd thread id": 1 if item.backward else 0}
        args |= {"Sequence number": item.sequence, **forward}
    events[place] = host(item.category, item.name, at, end - at, tid=tid, **args)
    assert events[place]["pid"] == PID
    return end + 1


def _write_arguments(args: Sequence[Any]) -> dict[str, Any]:
    """As the profiler writes them: a list of lists is a list of tensors, a text a value."""
    if not args:
        return {}
    tensors = [T(a) if isinstance(a, list) and not _is_nested(a) else a for a in args]
    return {
        "Input Dims": [_dims(a) for a in tensors],
        "Input type": [_type(a) for a in tensors],
        "Input Strides": [_strides(a) for a in tensors],
        "Concrete Inputs": [a if isinstance(a, str) else "" for a in tensors],
    }


def _is_nested(shapes: list[Any]) -> bool:
    return bool(shapes) and isinstance(shapes[0], list)


def _dims(arg: Any) -> list[Any]:
    return list(arg.shape) if isinstance(arg, T) else arg if isinstance(arg, list) else []


def _type(arg: Any) -> str:
    return arg.dtype if isinstance(arg, T) else "TensorList" if isinstance(arg, list) else "Scalar"


def _strides(arg: Any) -> list[int]:
    if not isinstance(arg, T):
        return []
    if arg.strides is not None:
        return list(arg.strides)
    steps = [1]
    for size in reversed(list(arg.shape)[1:]):
        steps.insert(0, steps[0] * size)
    return steps[: len(arg.shape)]
