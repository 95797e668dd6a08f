"""By which names kernels that exchange data between devices are known, and who says so.

Profilers record a kernel's name and nothing of its purpose. HolisticTraceAnalysis and TraceLens go
by 'nccl' and 'rccl' alone; inference engines and expert parallelism bring kernels of their own.
"""

from __future__ import annotations

from typing import NamedTuple


class Library(NamedTuple):
    """One library's kernels: a regular expression, without regard to case, and its source."""

    name: str
    pattern: str
    source: str


LIBRARIES = (
    Library("NCCL, RCCL", r"nccl|rccl", "NVIDIA/nccl src/device: ncclDevKernel_*, ncclKernel_*"),
    Library("oneCCL", r"oneccl|\bccl(?:::|_)\w", "oneapi-src/oneCCL src/coll/algorithms: ccl::"),
    Library(
        "NVSHMEM, rocSHMEM", r"nvshmem|rocshmem", "NVIDIA/nvshmem, ROCm/rocSHMEM: kernel prefixes"
    ),
    Library(
        "DeepEP",
        r"(?:deep_ep|dpsk::ep)::(?:intranode|internode)\w*::(?:dispatch|combine|notify\w*|barrier)"
        r"|(?:deep_ep|dpsk::ep)::\w*::(?:cached_notify)",
        "deepseek-ai/DeepEP csrc/kernels/{intranode,internode,internode_ll}.cu",
    ),
    Library(
        "PyTorch symmetric memory",
        r"multimem_(?:one_shot_)?(?:all_reduce|all_gather|reduce)|(?:one|two)_shot_all_reduce"
        r"|symmetric_memory::",
        "pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemoryOps.cu",
    ),
    Library(
        "vLLM, SGLang, AITER custom all-reduce",
        r"cross_device_reduce_[12]stage|quickreduce::|allreduce_prototype_(?:one|two)shot",
        "vllm-project/vllm csrc/custom_all_reduce.cuh, csrc/quickreduce/quick_reduce.h; ROCm/aiter",
    ),
    Library(
        "TensorRT-LLM, FlashInfer",
        r"allreduce_fusion_kernel|lamport|(?:one|two)shotallreducekernel"
        r"|trtllm_(?:mnnvl_)?all(?:_?)reduce|moealltoall",
        "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels; flashinfer-ai/"
        "flashinfer include/flashinfer/comm",
    ),
    Library("HCCL", r"\bhcom_\w|hccl", "Ascend/hccl: hcom_allReduce_*; Habana's HCCL"),
    Library("MSCCL, MSCCL++", r"msccl", "microsoft/msccl, microsoft/mscclpp src: mscclpp::"),
    Library(
        "Transformer Engine userbuffers",
        r"userbuffers_fp16_|userbuffers_pushrecv|userbuffers_pushsend",
        "NVIDIA/TransformerEngine common/comm_gemm_overlap/userbuffers/userbuffers.cu",
    ),
)

# Any of them; and what HolisticTraceAnalysis counts (hta/utils/utils.py: get_kernel_type).
PATTERN = "(?i)" + "|".join(library.pattern for library in LIBRARIES)
PEERS_PATTERN = "(?i)nccl|rccl"
