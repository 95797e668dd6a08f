"""sightline's own library that the CUDA driver loads into a program, and the CUPTI that it uses.

CUDA_INJECTION64_PATH is read by the driver when a program first uses CUDA (CUPTI documentation,
"CUPTI trace injection"). The variables that start with SIGHTLINE_CUPTI_ are native/cupti/options.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Ours: below what two runs of one program differ by.
BUDGET_PCT = 1.0
INJECTION = "CUDA_INJECTION64_PATH"
NVTX = "NVTX_INJECTION64_PATH"  # nvtxInit.h: the library that a program's ranges go to
_LIBRARY = "libsightline-cupti.so"
# The wheels that have CUPTI, and where in them; the newest CUDA first.
_WHEELS = (
    ("nvidia-cuda-cupti", "nvidia/cu13/lib/libcupti.so.13"),
    ("nvidia-cuda-cupti-cu13", "nvidia/cuda_cupti/lib/libcupti.so.13"),
    ("nvidia-cuda-cupti-cu12", "nvidia/cuda_cupti/lib/libcupti.so.12"),
)
# Where toolkits have it (CUDA Installation Guide).
_TOOLKIT = ("lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")


def find_injection() -> Path | None:
    """The library that is loaded into programs; None where this installation was built without."""
    from importlib.util import find_spec

    native = find_spec("sightline._native")
    if native is None or native.origin is None:
        return None
    path = Path(native.origin).parent / "libraries" / _LIBRARY
    return path if path.is_file() else None


def list_cuptis(root: Path = Path("/")) -> list[str]:
    """The CUPTI libraries of this Python's wheels and of CUDA toolkits, the newest first.

    A program that has its own, as PyTorch's wheels bring it, uses that one.
    """
    import importlib.metadata  # which takes 30 ms to load

    found = []
    for wheel, inside in _WHEELS:
        try:
            place = Path(str(importlib.metadata.distribution(wheel).locate_file(inside)))
        except importlib.metadata.PackageNotFoundError:
            continue
        if place.is_file():
            found.append(str(place))
    for toolkit in sorted(root.glob("usr/local/cuda*"), reverse=True):
        for folder in _TOOLKIT:
            found += [str(p) for p in sorted((toolkit / folder).glob("libcupti.so.1[23]"))]
    return list(dict.fromkeys(found))


def make_variables(
    recording: Mapping[str, Any], options: Mapping[str, Any], base: Mapping[str, str]
) -> dict[str, str]:
    """What the program's environment needs to be recorded.

    `recording` has folder, mark, ranks and every; `options` the choices of a person: sampling
    (continuous or serialized), period, no_calls, graph, budget (in %),
    measure_cost, flush_ms, question. Empty where the library is missing,
    or where another profiler's is to be loaded: the driver loads one.
    """
    library = find_injection()
    if library is None or names_other(base):
        return {}
    variables = {
        INJECTION: str(library),
        "SIGHTLINE_CUPTI_FOLDER": str(Path(recording["folder"]).resolve()),
        "SIGHTLINE_CUPTI_HOST": str(recording["mark"]),
        "SIGHTLINE_CUPTI_LIBRARIES": ":".join(list_cuptis()),
    }
    if recording.get("ranks"):
        variables["SIGHTLINE_CUPTI_RANKS"] = ",".join(map(str, recording["ranks"]))
    if recording.get("every", 1) > 1:
        variables["SIGHTLINE_CUPTI_EVERY"] = str(recording["every"])
    sampling = options.get("sampling")
    if sampling is None and options.get("question") == "stalls":
        sampling = "continuous"
    if sampling is not None:
        variables["SIGHTLINE_CUPTI_PC"] = str(sampling)
    if options.get("period") is not None:
        variables["SIGHTLINE_CUPTI_PC_PERIOD"] = str(options["period"])
    variables["SIGHTLINE_CUPTI_BUDGET_PCT"] = f"{options.get('budget') or BUDGET_PCT:g}"
    if not base.get(NVTX):
        variables[NVTX] = str(library)
    if options.get("measure_cost"):
        variables["SIGHTLINE_CUPTI_MEASURE"] = "1"
    if options.get("graph") == "graph":
        variables["SIGHTLINE_CUPTI_GRAPH"] = "graph"
    if options.get("flush_ms") is not None:
        variables["SIGHTLINE_CUPTI_FLUSH_MS"] = str(options["flush_ms"])
    if options.get("no_calls"):
        variables["SIGHTLINE_CUPTI_CALLS"] = "0"
    return variables


def names_other(base: Mapping[str, str]) -> str | None:
    """The library of another profiler that the environment has the driver load, if any."""
    chosen = base.get(INJECTION)
    return chosen if chosen and Path(chosen).name != _LIBRARY else None
