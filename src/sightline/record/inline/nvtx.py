"""Push and pop of NVTX or roctx, wherever this process has them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

Leave = Callable[[], object]
Push = Callable[[str], object]
Labels = tuple[Any, Any, Any]  # color, domain and category, each None where it is not given

# NVTX of CUDA toolkits up to 12; roctx of ROCm, under rocprofv3 and before.
_LIBRARIES = (
    ("libnvToolsExt.so.1", "nvtxRangePushA", "nvtxRangePop"),
    ("librocprofiler-sdk-roctx.so", "roctxRangePushA", "roctxRangePop"),
    ("libroctx64.so", "roctxRangePushA", "roctxRangePop"),
)
_vendor: tuple[Push, Leave] | None = None
_searched = False


def find_push_pop() -> tuple[Push, Leave] | None:
    """Push and pop of NVTX or roctx: through what the program has imported, else the library."""
    global _vendor, _searched
    if _vendor is None and not _searched:
        _vendor = _of_torch() or _of_cupy() or _of_package() or _of_library()
        # What is imported later may bring one; the search of the disk is made once.
        _searched = _vendor is None and "torch" not in sys.modules
    return _vendor


def push_labels(name: str, labels: Labels) -> Leave | None:
    """Push a range with its color, domain and category; what ends it.

    None where the package nvtx is missing: what torch, CuPy and the library push has no domain.
    """
    try:
        import nvtx
    except ImportError:
        return None
    color, domain, category = labels
    nvtx.push_range(name, color=color, domain=domain, category=category)
    return lambda: nvtx.pop_range(domain=domain)


def _of_torch() -> tuple[Push, Leave] | None:
    torch: Any = sys.modules.get("torch")
    version = getattr(torch, "version", None)
    if getattr(version, "cuda", None) is None and getattr(version, "hip", None) is None:
        return None
    return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop


def _of_cupy() -> tuple[Push, Leave] | None:
    cupy: Any = sys.modules.get("cupy")
    if cupy is None:
        return None
    return cupy.cuda.nvtx.RangePush, cupy.cuda.nvtx.RangePop


def _of_package() -> tuple[Push, Leave] | None:
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx.push_range, nvtx.pop_range


def _of_library() -> tuple[Push, Leave] | None:
    for library, push, pop in _LIBRARIES:
        try:
            loaded = ctypes.CDLL(library)
            enter, leave = getattr(loaded, push), getattr(loaded, pop)
        except (OSError, AttributeError):
            continue
        return (lambda name, f=enter: f(name.encode("utf-8", "replace"))), leave
    return None
