"""What PyTorch's profiler would load without need: PyTorch's compiler, 1.5 s of a program's start.

As it sets itself up, torch.profiler looks up torch._inductor to ask whether that captures CUDA
graphs, and PyTorch loads on demand what is looked up. A compiler that nobody has loaded has
compiled nothing, and captures graphs only where the environment says so.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_INDUCTOR = "_inductor"
_here = threading.local()  # other threads of the program may load it meanwhile


@contextmanager
def without_inductor(torch: Any) -> Iterator[None]:
    """In the block, what looks up torch._inductor on this thread does not find it unless loaded."""
    is_asked_for = os.environ.get("TORCHINDUCTOR_CUDAGRAPHS") == "1"
    if is_asked_for or f"torch.{_INDUCTOR}" in sys.modules:
        yield
        return
    _watch_lookups(torch)
    _here.hides = True
    try:
        yield
    finally:
        _here.hides = False


def _watch_lookups(torch: Any) -> None:
    original = vars(torch).get("__getattr__")
    if original is None or getattr(original, "of_sightline", False):
        return

    def look_up(name: str) -> Any:
        if name == _INDUCTOR and getattr(_here, "hides", False):
            raise AttributeError(f"module 'torch' has no attribute {name!r}")
        return original(name)

    look_up.of_sightline = True  # type: ignore[attr-defined]
    torch.__getattr__ = look_up
