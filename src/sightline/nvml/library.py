"""The binding of NVML (nvidia-ml-py), initialized, or why it cannot be used here."""

from __future__ import annotations

from typing import Any


class Unavailable(Exception):
    """NVML cannot be used here; the text says why and what to do."""


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
