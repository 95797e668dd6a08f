"""Beside the first finding about a profiled kernel: what is faster than a first version of it.

A kernel profiler sees how a kernel runs, and not that its algorithm has a better one; its name
often tells which one it is (timeline/own_kernels.tsv).
"""

from __future__ import annotations

import re
from dataclasses import replace

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.cxx_names import demangle, parse_function
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.offload_names import name_region
from sightline.diagnosis.vendor_words import translate_for
from sightline.timeline.own_kernels import find_algorithm
from sightline.timeline.world import read_world

# At the memory's rate these are as fast as they get: each element is moved once.
_MOVES_ONCE = ("reduction", "scan", "transpose", "histogram", "stencil", "elements")
# Frameworks whose users write operators, and no kernels.
LAUNCHES_FOR_YOU = ("sglang", "vllm", "pytorch", "jax", "tensorrt")
# llama.cpp, docs/build.md (GGML_CUDA_FORCE_CUBLAS) and the page of llama-bench.
LLAMA = "llama.cpp"
OF_LLAMA = (
    "this is llama.cpp's code: switch flash attention on, give prompts micro-batches that fill the "
    "GPU, try another quantization, or a build that uses cuBLAS for prompts "
    "(GGML_CUDA_FORCE_CUBLAS): llama-bench compares them"
)
_AT_MEMORY = "ncu-memory-limit"
# Thrust, "thrust::sort": keys of built-in types in the default order are sorted by radix, all
# others by merging, which passes over the data once for each doubling.
_MERGES = r"MergeSort|merge_sort"
_BY_RADIX = (
    "keys of built-in types in the default order (thrust::less, thrust::greater) are sorted by "
    "radix, in fewer passes: leave out your own comparator, or call cub::DeviceRadixSort"
)


def advise_kernel(run: Run, name: str) -> str:
    """How to go on with a kernel of which only the name is known: an algorithm, and a profile."""
    is_own = find_library(name) is None and read_world(run).framework not in LAUNCHES_FOR_YOU
    return (
        f"{advise_before_profile(name, is_own=is_own)}profile it, its launch shape (blocks and "
        f"threads) first:  ncu --set full{choose_in_ncu(name)} -c 1"
    )


def advise_before_profile(name: str, *, is_own: bool) -> str:
    """What to try before a kernel is profiled, where its name says what it is; the profile follows.

    `is_own`: the program chose to write it.
    """
    algorithm = find_algorithm(name) if is_own else None
    advice = OF_LLAMA if find_library(name) == LLAMA else algorithm.advice if algorithm else ""
    return f"{advice}; to see what holds it back, " if advice else ""


def choose_in_ncu(name: str) -> str:
    """What makes Nsight Compute profile one kernel alone; empty without a name.

    Its -k looks at the function's own name, without namespaces, arguments and templates (Nsight
    Compute CLI, --kernel-name-base). Of a frame that runs what its template says, the whole name is
    asked for.
    """
    parts = parse_function(name)
    own = re.findall(r"\w+", name if name_region(name) else parts.base)[:1]
    if not own:
        return ""
    label = shorten_kernel_name(name)
    runs = re.search(r"<(\w+)", label)
    words = re.findall(r"\w+", " ".join(parts.arguments))
    longest = label if label in words else max(words, key=len, default="")
    inner = "" if label.startswith(own[0]) else longest
    word = runs[1] if runs else inner
    whole = f"{own[0]}.*{word}"
    if word and re.search(whole, demangle(name)):
        return f' --kernel-name-base demangled -k "regex:{whole}"'
    return f" -k regex:{own[0]}"


def add_algorithm(finding: Finding, kernel: str, vendor: str | None) -> Finding:
    """The finding about a profiled kernel, with what is faster than a first version of it."""
    is_library = find_library(kernel) is not None
    if is_library and re.search(_MERGES, kernel):
        return replace(finding, fix=f"{translate_for(vendor, _BY_RADIX)}; else {finding.fix}")
    algorithm = None if is_library else find_algorithm(kernel)
    if algorithm is None or not finding.fix:
        return finding
    if finding.rule == _AT_MEMORY and algorithm.algorithm in _MOVES_ONCE:
        return finding
    advice = translate_for(vendor, algorithm.advice)
    return replace(finding, fix=f"{finding.fix}. Before tuning it: {advice}")
