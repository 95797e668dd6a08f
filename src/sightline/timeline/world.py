"""Which world a run is of: who runs there, in which language, on whose GPUs, and what for.

Advice that fits needs all of it (diagnosis/advice.py). What no name says is unknown, and gets
neutral words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.host_ranges import list_host_names

# In this order: SGLang uses kernels of vLLM, both run on PyTorch, and Julia's and Kokkos' kernels
# may be OpenMP's neighbours. Names are those of their own Python files, custom operators and
# kernels; ATen's operators and kernels; XLA's executor and the functions that jax.jit compiles;
# TensorRT's kernels and ranges; the types of CUDA.jl's arguments; what Numba's and CuPy's compilers
# call their kernels; Kokkos' launch functions; the OpenMP and OpenACC runtimes' kernels (LLVM,
# NVHPC).
_FRAMEWORKS = {
    "sglang": r"sglang/|^sgl_|sgl_kernel|sglang::",
    "vllm": r"^vllm/|/vllm/|vllm::|_vllm_|^vllm\.",
    "pytorch": r"aten::|at::native|^torch/|c10::|c10d::|^triton_(?:poi|red|per)_|^ProfilerStep#",
    "jax": r"^jit_|^jax/|PjRt|^XlaModule|xla::|^Thunk|^jit\(",
    "tensorrt": r"^trt_|nvinfer1::|genericReformat::|^__myl_|^generatedNativePointwise"
    r"|^ExecutionContext::enqueue|^TensorRT:",
    "julia": r"CuDeviceArray<|CuDeviceVector<|CompilerMetadata<",
    "numba": r"^cudapy::|\[abi:v\d+\]\[abi:cw|numba/",
    "cupy": r"^cupy_|cupy/",
    "kokkos": r"Kokkos::|^cuda_parallel_launch_|^hip_parallel_launch_",
    "openmp": r"__omp_offloading|^nvkernel_.*_F\d+L\d+|^omp_|^ompt_",
    "openacc": r"_\d+_gpu(?:__red)?$|^acc_|__pgi_uacc",
}
# What only PyTorch writes: its profiler, its allocator and its process groups.
_PYTORCHS_OWN = (
    *("kineto", "torch_snapshot", "torch_memory", "torch_memory_stats", "torch_memory_timeline"),
    *("torch_flight", "inductor", "chakra_et"),
)
NATIVE, UNKNOWN = "native", "unknown"
_CALLS = {"amd": r"^hip[A-Z]|^hsa_", "intel": r"^ze[A-Z]", "nvidia": r"^cu(?:da)?[A-Z]"}
# Whose GPUs a tool records, where neither a device nor a call says it.
_TOOLS = {"amd": r"^(?:roc|omni)", "intel": r"^(?:unitrace|onetrace|GTPin|VTune|iaprof)",
          "nvidia": r"^(?:Nsight|NVIDIA|nsys|nvprof|CUPTI)"}  # fmt: skip
_PYTHON = ("sglang", "vllm", "pytorch", "jax", "numba", "cupy")
_COMPILED = ("kokkos", "openmp", "openacc")
OFFLOAD = ("openmp", "openacc")  # whose runtimes copy what a region uses
SERVING = ("sglang", "vllm", "tensorrt")
# A program that learns runs backwards: PyTorch's autograd nodes and optimizers (as Kineto names
# them), and kernels that say so.
_TRAINING = (
    r"autograd::engine::evaluate_function|^Optimizer\.step#|Backward\d*$|_backward\b|_bwd_|_bwd\b"
    r"|multi_tensor_apply_kernel|[Aa]dam\w*Functor|^FullyShardedDataParallel|^DistributedDataParallel"
)
TRAINING, INFERENCE = "training", "inference"


@dataclass(frozen=True)
class World:
    """`framework`: one of `FRAMEWORKS`; `vendor` as in table devices, or None.

    `language`: python, julia, compiled or unknown; `purpose`: training, inference or unknown.
    """

    framework: str
    vendor: str | None
    language: str = UNKNOWN
    purpose: str = UNKNOWN


FRAMEWORKS = (*_FRAMEWORKS, NATIVE, UNKNOWN)


def read_world(run: Run) -> World:
    """What world it is, by the names in the recording."""
    return run.once(read_recorded)


def read_recorded(run: Run) -> World:
    """The world as the names of its rows say it."""
    host = list_host_names(run).different
    names = pl.concat([host, *(_list_names(run, table) for table in ("device_ops", "call_sums"))])
    by_name = _match_any(names, _FRAMEWORKS)
    # Kineto is PyTorch's profiler: what it recorded is PyTorch, whatever its kernels are called.
    formats = run.table("recordings").get_column("format")
    is_kineto = formats.is_in(_PYTORCHS_OWN).any()
    if (formats == "xplane").any() and not is_kineto and "pytorch" in by_name:
        by_name.remove("pytorch")  # sl.step() names steps as PyTorch does
        by_name.append("jax")
    known = run.table("devices").get_column("vendor").drop_nulls().to_list()
    called = _match_any(names, _CALLS)
    tools = run.table("recordings").get_column("tool").cast(pl.String).alias("name")
    rest = "pytorch" if is_kineto else NATIVE if called else UNKNOWN
    framework = next(iter([*by_name, rest]))
    return World(
        framework,
        next(iter([*known, *called, *_match_any(tools, _TOOLS)]), None),
        _name_language(run, host, framework),
        _name_purpose(names, framework),
    )


def _list_names(run: Run, table: str) -> pl.Series:
    return run.table(table, ["name"]).get_column("name").unique()


def _match_any(names: pl.Series, patterns: Mapping[str, str]) -> list[str]:
    """Whose patterns some name matches: all are asked at once, side by side."""
    name = pl.col("name")
    asked = (name.str.contains(pattern).any().alias(key) for key, pattern in patterns.items())
    found = names.to_frame("name").select(asked).row(0, named=True)
    return [key for key, matches in found.items() if matches]


def _name_language(run: Run, host: pl.Series, framework: str) -> str:
    """By the framework, frames of Python among the ranges, and threads and libraries by name."""
    if framework == "julia":
        return "julia"
    if framework in _PYTHON or host.str.contains(r"\.py\(\d+\): ").any():
        return "python"
    threads = run.table("threads").get_column("thread_name").cast(pl.String)
    modules = run.table("frames").get_column("module").cast(pl.String)
    if (
        threads.str.contains(r"^(?:python|pt_)").any()
        or modules.str.contains(r"/?libpython\d").any()
    ):
        return "python"
    return "compiled" if framework in (*_COMPILED, NATIVE) else UNKNOWN


def _name_purpose(names: pl.Series, framework: str) -> str:
    if framework in SERVING:
        return INFERENCE
    if names.str.contains(_TRAINING).any():
        return TRAINING
    # PyTorch that records operators and runs none backwards only runs forward.
    has_operators = names.str.contains("^aten::").any()
    return INFERENCE if framework == "pytorch" and has_operators else UNKNOWN
