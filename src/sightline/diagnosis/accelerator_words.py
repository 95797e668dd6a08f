"""Advice for accelerators that are no GPUs: in the words of their own world.

Sources: docs.jax.dev (jax.profiler; openxla/xprof; tpu-info), docs.habana.ai (hl-smi, HPU graphs,
the profiler), hiascend.com (torch_npu, msprof, npu-smi), pytorch.org (MTIA).
"""

from __future__ import annotations

from typing import NamedTuple

Words = tuple[tuple[str, str], ...]
# A command of Nsight Compute with its options, of which one may be in quotes (-k "regex:a.*b").
NCU = r'\bncu\b(?: -(?:(?<= )"[^"]*"|[^;,"])*)?'


class _Accelerator(NamedTuple):
    """What stands for a GPU, and for the tools and libraries that go with it."""

    unit: str
    article: str
    maker: str
    namespace: str  # of PyTorch
    profiler: str
    timeline: str
    monitor: str
    graph: str  # what launches a step at once
    more: Words = ()


_KNOWN = {
    "google": _Accelerator(
        "TPU", "a", "Google", "torch_xla", "xprof --logdir DIR  (HLO op stats)",
        "jax.profiler.trace(DIR)", "tpu-info", "compile the whole step as one program: jax.jit",
        (
            (r"give communication a stream of its own(?: \(async_op=True in PyTorch\))?",
             'let XLA overlap it (LIBTPU_INIT_ARGS="'
             '--xla_tpu_enable_async_collective_fusion=true")'),
            (r", from pinned memory on a second stream", " (jax.device_put before the step)"),
        ),
    ),
    "meta": _Accelerator(
        "MTIA", "an", "Meta", "torch.mtia", "PyTorch's profiler with ProfilerActivity.MTIA",
        "PyTorch's profiler with ProfilerActivity.MTIA", "the machine's own monitor",
        "compile the step as a whole: torch.compile(model)",
    ),
    "habana": _Accelerator(
        "HPU", "an", "Habana", "torch.hpu", "hl-prof-config, then the program again",
        "PyTorch's profiler with ProfilerActivity.HPU", "hl-smi",
        "replay the step as an HPU graph: wrap_in_hpu_graph(model)",
    ),
    "huawei": _Accelerator(
        "NPU", "an", "Huawei", "torch.npu", "msprof op PROGRAM", "msprof PROGRAM", "npu-smi info",
        "replay the step as an NPU graph: torch.npu.NPUGraph",
    ),
}  # fmt: skip
VENDORS = tuple(_KNOWN)


def name_unit(vendor: str | None) -> str:
    """What the vendor's device is called: TPU, NPU, ...; GPU for all others."""
    return _KNOWN[vendor].unit if vendor in _KNOWN else "GPU"


def list_words(vendor: str, sums: str) -> Words:
    """Patterns of advice that was written for CUDA, and what stands for each; `sums` is one."""
    one = _KNOWN[vendor]
    return (
        *one.more,
        (r"replay the step as a CUDA graph: torch\.compile\(model, mode=\"reduce-overhead\"\)",
         one.graph),
        (r"ncu [^;,()]*\(AMD: [^)]*\)", one.profiler),
        (r"Nsight Compute or rocprof-compute", one.profiler),
        (sums, one.timeline),
        (NCU, one.profiler),
        (r"\bnsys (?:profile|analyze)[^;,\"]*", one.timeline),
        (r"\bNsight (?:Compute|Systems)\b", "the profiler"),
        (r"\bnvidia-smi\b(?: topo -m| -[^;,)]*)?", one.monitor),
        (r"\bcuda[A-Z]\w*", "the runtime's call for it"),
        (r"\bPYTORCH_CUDA_ALLOC_CONF\b", "the allocator's settings"),
        (r"\bCUDA_VISIBLE_DEVICES\b", "the list of visible devices"),
        (r"\bCUDA_MODULE_LOADING=\w+", "loading all modules at the start"),
        (r"\btorch\.cuda\.CUDAGraph\b", f"the graphs of {one.namespace}"),
        (r"\btorch\.cuda\b", one.namespace),
        (r"\bcu(?:BLAS|DNN|FFT|SPARSE)\w*", "the vendor's library"),
        (r"\b(?:T|t)ensor (?:C|c)ore", "matrix unit"),
        (r"\bNVLink\b", "the links between devices"),
        (r"\bNVTX\b", "profiler ranges"),
        (r"\bCUDA\b", one.unit),
        (r"\bNVIDIA\b", one.maker),
        (r"\ba GPU\b", f"{one.article} {one.unit}"),
        (r"\bGPU(?=s?\b)", one.unit),
    )  # fmt: skip
