"""Whose code a kernel is, by its name: a library's, which its user calls and does not write.

The names are those of the libraries' public sources, and of the recordings of the corpus: what
NVIDIA, AMD and PyTorch put before or into all of theirs. CUTLASS is a library of templates that a
program instantiates itself (`cutlass::gemm::kernel::…` in its name): only the ready-made kernels of
cuBLAS and cuDNN, named by number (`cutlass_80_simt_sgemm_…`), are theirs.
"""

from __future__ import annotations

import re

# The first that matches.
_OWNERS = {
    "cuDNN": r"cudnn|(?:fprop|dgrad|wgrad|convolve)\w*_(?:sm\d\d|nhwc|nchw)"
    r"|xmma_(?:fprop|dgrad|wgrad)",
    "cuBLAS": r"cublas|nvjet|cutlass(?:3x)?_(?:sm)?\d\d+_|\bgemv2[NT]_|\bgemvNSP|\bgemmSN_"
    r"|\bgemmk1_|\bsplitKreduce_kernel"
    r"|^(?:void )?(?:maxwell|pascal|volta|turing|ampere|hopper|sm\d\d+)_\w*gemm",
    "cuFFT": r"cufft|\b(?:regular|vector|multi_bluestein)_fft",
    "cuSPARSE": r"cusparse",
    "PyTorch": r"\bat::native|\bat_cuda_detail",
    "CUB": r"\bcub::",
    "Thrust": r"\bthrust::",
    "rocBLAS": r"\bCijk_|rocblas",
    "rocPRIM": r"\brocprim|hipcub",
    "llama.cpp": r"\bmul_mat_(?:vec_|vec$|q\b|q<|f\b|f<)|\bggml_|\bquantize_(?:q8_1|mmq)"
    r"|\bdequantize_block|\bflash_attn_(?:ext|tile|vec|combine|stream_k|mma)_",
}
_COMPILED = {owner: re.compile(pattern) for owner, pattern in _OWNERS.items()}


def find_library(name: str | None) -> str | None:
    """The library that a kernel's code is of, as people call it; None for the program's own."""
    if not name:
        return None
    return next((o for o, pattern in _COMPILED.items() if pattern.search(name)), None)
