"""Checkpoints, and the history of the GPU's memory around a block."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sightline.core.model import event_file as f
from sightline.record.inline import session
from sightline.record.inline.annotate import payload_text
from sightline.record.inline.recorder import now
from sightline.record.inline.session import state

MAX_ENTRIES = 100_000  # allocations and frees of the history: what torch's own example keeps


def checkpoint(name: str, *, shapes: Any = None, synchronize: bool = False) -> None:
    """A named moment with the memory that is allocated and reserved on the current GPU.

    The GPU is not waited for unless asked: then the time is when the host got there, and what it
    had launched may still run. The run says which of the two it was.
    """
    if not state.on:
        return
    file = session.open_recorder()
    if file is None:
        return
    cuda = _cuda()
    if synchronize and cuda is not None:
        cuda.synchronize()
    at = now()
    told: dict[str, Any] = {"synchronized": bool(synchronize and cuda is not None)}
    if shapes is not None:
        told["shapes"] = _shapes(shapes)
    if cuda is not None:
        device = cuda.current_device()
        told["allocated_bytes"] = cuda.memory_allocated()
        told["reserved_bytes"] = cuda.memory_reserved()
        file.sample("allocated at checkpoints [bytes]", at, told["allocated_bytes"], device)
        file.sample("reserved at checkpoints [bytes]", at, told["reserved_bytes"], device)
    else:
        resident = _resident()
        if resident is not None:
            told["process_bytes"] = resident
            file.sample("process memory at checkpoints [bytes]", at, resident)
    flags = f.HAS_PAYLOAD | (f.SYNCHRONIZED if told["synchronized"] else 0)
    number = payload_text(file, told)
    file.put(f.MARK, file.name(f"checkpoint: {name}"), at, extra=number, flags=flags)


def _cuda() -> Any:
    """torch.cuda where the program uses a GPU through it; looking must not initialize CUDA."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _resident() -> int | None:
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123  # once per checkpoint
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _shapes(value: Any) -> Any:
    """Shapes of tensors, also inside lists and dicts; what is not a tensor is taken as it is."""
    if hasattr(value, "shape"):
        return list(value.shape)
    if isinstance(value, dict):
        return {str(k): _shapes(v) for k, v in list(value.items())[:100]}
    if isinstance(value, (list, tuple)):
        return [_shapes(v) for v in value[:100]]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(type(value))


@contextmanager
def memory_history(name: str = "memory", *, stacks: bool = True) -> Iterator[None]:
    """Keep every allocation and free of PyTorch's GPU memory in this block, with its place.

    torch.cuda.memory._record_memory_history
    (https://docs.pytorch.org/docs/stable/torch_cuda_memory.html).
    """
    cuda = _cuda() if state.on else None
    file = session.open_recorder() if state.on else None
    if file is None:
        yield
        return
    if cuda is None:
        file.fact(memory_history_skipped="the program has not used a GPU through torch")
        yield
        return
    began = now()
    cuda.memory._record_memory_history(
        max_entries=MAX_ENTRIES, context="all" if stacks else None, stacks="python"
    )
    try:
        yield
    finally:
        try:
            _keep(cuda.memory._snapshot(), name, file, began)
        except Exception as error:  # whatever torch raises: the program goes on
            file.fact(memory_history_failed=f"{type(error).__name__}: {error}"[:500])
        finally:
            cuda.memory._record_memory_history(enabled=None)


def _keep(snapshot: dict[str, Any], name: str, file: Any, began: int) -> None:
    """Write the snapshot as JSON: the pickle that torch makes of it is not safe to read."""
    if state.folder is None:
        return
    document = {
        "format": "sightline-torch-memory",
        "version": 1,
        "name": name,
        "pid": os.getpid(),
        "device_traces": snapshot.get("device_traces", []),
    }
    stem = f"{session.name_files()}.memory-{began}"
    part = state.folder / f".{stem}.part"
    part.write_text(json.dumps(document, default=str), encoding="utf-8")
    part.replace(state.folder / f"{stem}.json")
