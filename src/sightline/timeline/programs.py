"""What kind of program a run is of, and whose devices it ran on: advice that fits it needs both."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.model.run import Run
from sightline.timeline.host_ranges import list_host_names

# In this order: SGLang uses kernels of vLLM, and both run on PyTorch. Names are those of
# their own Python files, custom operators and kernels; ATen's operators and kernels; XLA's
# executor and the functions that jax.jit compiles; the OpenMP runtimes' kernels (LLVM, NVHPC).
_FRAMEWORKS = {
    "sglang": r"sglang/|^sgl_|sgl_kernel|sglang::",
    "vllm": r"^vllm/|/vllm/|vllm::|_vllm_|^vllm\.",
    "pytorch": r"aten::|at::native|^torch/|c10::|c10d::|^triton_(?:poi|red|per)_|^ProfilerStep#",
    "jax": r"^jit_|^jax/|PjRt|^XlaModule|xla::|^Thunk|^jit\(",
    "openmp": r"__omp_offloading|^nvkernel_.*_F\d+L\d+|^omp_|^ompt_",
}
NATIVE = "native"
_CALLS = {"amd": r"^hip[A-Z]|^hsa_", "intel": r"^ze[A-Z]", "nvidia": r"^cu(?:da)?[A-Z]"}


@dataclass(frozen=True)
class Program:
    """`framework`: vllm, sglang, pytorch, jax, openmp or native; `vendor` as in table devices."""

    framework: str
    vendor: str | None


def recognise_program(run: Run) -> Program:
    """What kind of program it is, by the names in the recording."""
    return run.once(_recognise)


def _recognise(run: Run) -> Program:
    names = pl.concat(
        [
            list_host_names(run).different,
            run.table("device_ops", ["name"]).get_column("name").unique(),
        ]
    )
    by_name = [f for f, pattern in _FRAMEWORKS.items() if names.str.contains(pattern).any()]
    # Kineto is PyTorch's profiler: what it recorded is PyTorch, whatever its kernels are called.
    formats = run.table("recordings").get_column("format")
    is_kineto = (formats == "kineto").any()
    if (formats == "xplane").any() and not is_kineto and "pytorch" in by_name:
        by_name.remove("pytorch")  # sl.step() names steps as PyTorch does
        by_name.append("jax")
    framework = next(iter([*by_name, "pytorch" if is_kineto else NATIVE]))
    known = run.table("devices").get_column("vendor").drop_nulls().to_list()
    called = [v for v, pattern in _CALLS.items() if names.str.contains(pattern).any()]
    return Program(framework, next(iter([*known, *called]), None))
