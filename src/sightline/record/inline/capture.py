"""`with sl.capture():` is what nsys and ncu record, and nothing else, where they are told to.

cudaProfilerStart and cudaProfilerStop (CUDA runtime API, Profiler Control), for
`nsys --capture-range=cudaProfilerApi` and `ncu --profile-from-start off`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from sightline.record.inline.annotate import annotate
from sightline.record.inline.session import state

Call = Callable[[], object]
_LIBRARIES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so")
_found: tuple[Call, Call] | None = None


class capture:  # used as a context manager
    """The part of a program that a vendor's profiler is to record; also a range of that name."""

    __slots__ = ("_range", "_stop")

    def __init__(self) -> None:
        self._range: annotate | None = None
        self._stop: Call | None = None

    def __enter__(self) -> capture:
        if not state.on:
            return self
        pair = switches() if state.nvtx else None
        self._range = annotate("capture")
        if pair is not None:
            pair[0]()
            self._stop = pair[1]
        self._range.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._range is not None:
            self._range.__exit__()
            self._range = None
        if self._stop is not None:
            self._stop()
            self._stop = None


def switches() -> tuple[Call, Call] | None:
    """cudaProfilerStart and Stop, of the runtime library that the program uses."""
    global _found
    if _found is None:
        _found = _of_torch() or _of_cupy() or _of_library()
    return _found


def _of_torch() -> tuple[Call, Call] | None:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    runtime = torch.cuda.cudart()
    return runtime.cudaProfilerStart, runtime.cudaProfilerStop


def _of_cupy() -> tuple[Call, Call] | None:
    cupy: Any = sys.modules.get("cupy")
    if cupy is None:
        return None
    return cupy.cuda.runtime.profilerStart, cupy.cuda.runtime.profilerStop


def _of_library() -> tuple[Call, Call] | None:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            return library.cudaProfilerStart, library.cudaProfilerStop
        except (OSError, AttributeError):
            continue
    return None
