"""Advice in the words of the GPU's vendor: no other vendor's calls and tools.

Rules write their advice for CUDA, which most people know. HIP's runtime has the same calls under
names that begin with `hip` (HIPIFY, "CUDA Runtime API functions supported by HIP"); where a name
differs, and for SYCL, whose calls are others, a row says what stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.diagnosis.accelerator_words import NCU, VENDORS, list_words, name_unit
from sightline.timeline.world import read_world

_Words = Sequence[tuple[str, str]]

_SUMS = r"\bnsys stats --report [\w,]+ REPORT"

_AMD: _Words = (
    # PyTorch, "HIP (ROCm) semantics": these have no counterpart that is documented.
    (r"; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True[^;]*", ""),
    (r"; CUDA_MODULE_LOADING=EAGER[^;]*", ""),
    # Where a rule names both vendors' tools, the other's goes.
    (r"ncu [^;,()]*\(AMD: ([^)]*)\)", r"\1"),
    (r"Nsight Compute or rocprof-compute", "rocprof-compute"),
    (NCU, "rocprof-compute profile -n NAME -- PROGRAM"),
    (_SUMS, "rocprofv3 --kernel-trace --memory-copy-trace --stats -- PROGRAM"),
    (r"\bnsys (?:profile|analyze)[^;,\"]*", "rocprofv3 --sys-trace -- PROGRAM"),
    (r"\bNsight Compute\b", "rocprof-compute"),
    (r"\bNsight Systems\b", "rocprofv3"),
    (r"\bnvidia-smi topo -m\b", "rocm-smi --showtopo"),
    (r"\bnvidia-smi\b(?: -[^;,)]*)?", "rocm-smi --showallinfo"),
    (r"\bcuda(?:HostAlloc|MallocHost)\b", "hipHostMalloc"),
    (r"\bcuda([A-Z]\w*)", r"hip\1"),
    (r"\bPYTORCH_CUDA_ALLOC_CONF\b", "PYTORCH_HIP_ALLOC_CONF"),
    (r"\bCUDA_VISIBLE_DEVICES\b", "HIP_VISIBLE_DEVICES"),
    (r"\bCUDA_MODULE_LOADING=\w+", "loading all modules at the start"),
    (r"\bcuBLAS\w*", "hipBLASLt"),
    (r"\bcuDNN\b", "MIOpen"),
    (r"\bcuFFT\b", "hipFFT"),
    (r"\bcuSPARSE\b", "hipSPARSE"),
    (r"\bCUB\b", "hipCUB"),
    (r"\b(?:T|t)ensor (?:C|c)ore", "matrix core"),
    (r"\bNVLink\b", "Infinity Fabric"),
    (r"\bNVTX\b", "roctx"),
    (r"(?<!torch\.cuda\.)\bCUDA\b", "HIP"),
    (r"\bNVIDIA\b", "AMD"),
)
_INTEL: _Words = (
    (r"ncu [^;,()]*\(AMD: [^)]*\)", "unitrace --metric-query PROGRAM"),
    (r"Nsight Compute or rocprof-compute", "VTune Profiler"),
    (NCU, "unitrace --metric-query PROGRAM"),
    (_SUMS, "unitrace --device-timing PROGRAM"),
    (
        r"\bnsys (?:profile|analyze)[^;,\"]*",
        "unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM",
    ),
    (r"\bNsight Compute\b", "VTune Profiler"),
    (r"\bNsight Systems\b", "unitrace"),
    (r"\bnvidia-smi topo -m\b", "xpu-smi topology -m"),
    (r"\bnvidia-smi\b(?: -[^;,)]*)?", "xpu-smi dump"),
    (r"\bcuda(?:HostAlloc|MallocHost)(?:(?:,| or) cudaHostRegister)?\b", "sycl::malloc_host"),
    (r"\bcudaHostRegister\b", "sycl::malloc_host"),
    (r"\bcudaMalloc\w*", "sycl::malloc_device"),
    (r"\bcudaFree\w*", "sycl::free"),
    (r"\bcudaMemcpy\w*", "sycl::queue::memcpy"),
    (r"\bcudaMemset\w*", "sycl::queue::memset"),
    (r"\bcudaMemPrefetchAsync\b", "sycl::queue::prefetch"),
    (r"\bcudaMemAdvise\b", "sycl::queue::mem_advise"),
    (r"\bcuda(?:Stream|Device|Event)Synchronize\b", "sycl::queue::wait"),
    (r"\bcudaStreamWaitEvent\b", "sycl::handler::depends_on"),
    (r"\bcudaGraph\w*|\bcudaStream\w*Capture\b", "sycl_ext_oneapi_graph"),
    (r"\bcudaStream\w*", "sycl::queue"),
    (r"\bcuda[A-Z]\w*", "the call of SYCL that does so"),
    (r"\btorch\.cuda\.CUDAGraph\b", "torch.xpu.XPUGraph"),
    (r"\btorch\.cuda\b", "torch.xpu"),
    (r"\bPYTORCH_CUDA_ALLOC_CONF\b", "PYTORCH_ALLOC_CONF"),
    (r"\bCUDA_VISIBLE_DEVICES\b", "ZE_AFFINITY_MASK"),
    (r"\bCUDA_MODULE_LOADING=\w+", "loading all modules at the start"),
    (r"\bcuBLAS\w*", "oneMKL"),
    (r"\bcuDNN\b", "oneDNN"),
    (r"\b(?:T|t)ensor (?:C|c)ore", "XMX engine"),
    (r"\bNVLink\b", "Xe Link"),
    (r"\bNVTX\b", "ITT"),
    (r"\bCUDA\b", "SYCL"),
    (r"\bNVIDIA\b", "Intel"),
)
_NVIDIA: _Words = (
    (r"(ncu [^;,()]*\S)\s*\(AMD: [^)]*\)", r"\1"),
    (r"Nsight Compute or rocprof-compute", "Nsight Compute"),
)
_WORDS: dict[str, _Words] = {
    "amd": _AMD, "intel": _INTEL, "nvidia": _NVIDIA,
    **{vendor: list_words(vendor, _SUMS) for vendor in VENDORS},
}  # fmt: skip
_ON_GPUS = r"(?<=\d )GPU(?=s?\b)"


def translate_findings(run: Run, found: list[Finding]) -> list[Finding]:
    """The findings with advice for the run's GPUs, where all of them are of one vendor."""
    vendor = read_world(run).vendor
    known = run.table("devices").get_column("vendor").drop_nulls()
    if vendor not in _WORDS or known.n_unique() > 1:
        return found
    return [
        replace(
            finding,
            title=translate_advice(finding.title, vendor) or "",
            summary=translate_advice(finding.summary, vendor) or "",
            cause=translate_advice(finding.cause, vendor),
            fix=translate_advice(finding.fix, vendor),
            verify=translate_advice(finding.verify, vendor),
            reason=translate_advice(finding.reason, vendor),
            evidence=tuple(re.sub(_ON_GPUS, name_unit(vendor), e) for e in finding.evidence),
        )
        for finding in found
    ]


def translate_advice(text: str | None, vendor: str) -> str | None:
    """A text that was written for CUDA, for the vendor's GPUs."""
    if text is None:
        return None
    for pattern, words in _WORDS[vendor]:
        text = re.sub(pattern, words, text)
    return text


def translate_for(vendor: str | None, text: str) -> str:
    """The text for the vendor's GPUs; as it is for those that it was written for."""
    return text if vendor not in _WORDS else translate_advice(text, vendor) or ""
