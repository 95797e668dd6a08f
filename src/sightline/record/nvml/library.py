"""The binding of NVML (nvidia-ml-py), initialized, or why it cannot be used here; its GPUs."""

from __future__ import annotations

from typing import Any, NamedTuple


class Unavailable(Exception):
    """NVML cannot be used here; the text says why and what to do."""


class Gpu(NamedTuple):
    """A GPU by its NVML index; without a handle where it cannot be asked: `problem` says why."""

    number: int
    name: str
    handle: Any = None
    problem: str | None = None


def connect_nvml() -> Any:
    """The binding, initialized. Raises Unavailable."""
    try:
        import pynvml
    except ImportError as error:
        raise Unavailable("nvidia-ml-py is not installed:  pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise Unavailable(f"NVML does not start: {error}") from error
    return pynvml


def find_gpus(nvml: Any) -> list[Gpu]:
    """Every GPU that the driver counts, also those that it cannot reach. Raises Unavailable."""
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        raise Unavailable(f"NVML does not say which GPUs there are: {error}") from error
    found = []
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            name = nvml.nvmlDeviceGetName(handle)
        except nvml.NVMLError as error:
            found.append(Gpu(index, f"GPU {index}", problem=str(error)))
        else:
            found.append(Gpu(index, name.decode() if isinstance(name, bytes) else name, handle))
    return found
