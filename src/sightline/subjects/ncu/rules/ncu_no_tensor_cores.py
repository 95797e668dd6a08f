"""A product of half-precision matrices does not use the tensor cores.

Symptom
    The kernel multiplies and adds numbers of 16 bits one by one, and no tensor instruction is
    executed.

Why it hurts
    Tensor cores do 16 times as many multiply-adds of 16 bits a cycle as the FMA pipe does of 32.

Evidence
    Executed operations (`sightline stats instruction_mix`), the tensor pipe (`sightline stats
    tensor_use`).

Threshold
    Multiply-adds are a tenth of all instructions or more (ours), each with loads: at most 8 for
    a load (ours: from there on loads are no matter), and as many are of 16 bits, or have as
    many conversions from 16 bits. And a name that speaks of a matrix product. Estimate: the SM
    has a sixteenth of these products left (the architecture white papers: tensor FP16 against
    FP32, from Volta to Hopper 8 to 16 times), and the L1 a quarter of its loads, as fragments
    are used again (ncu-l1-limit); the kernel shrinks to what the next unit needs.

Fix
    Use a library (cuBLAS, cuBLASLt, cuDNN, CUTLASS), or nvcuda::wmma and mma.sync.

False positives
    Arithmetic that is not a matrix product, such as filters with another weight for each element.

References
    CUDA C++ Programming Guide, "Warp Matrix Functions"; NVIDIA H100 Tensor Core GPU Architecture.
"""

from __future__ import annotations

import re

from sightline.core.model.declare import Rule
from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import L1, SM, WAITS, Case
from sightline.diagnosis.kernel_estimates import Hit, relieve
from sightline.diagnosis.profiled import judge_kernels
from sightline.roofline.facts import TIME

RULE = Rule(
    "ncu-no-tensor-cores",
    "Half-precision product without tensor cores",
    explains=(*WAITS, "ncu-l1-limit", "ncu-pipe-limit", "ncu-occupancy-limit"),
)
SHARE_PCT, MOST_PRODUCTS = 10.0, 8.0
FASTER, REUSE = 16.0, 4.0
_TENSOR = ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UTC")
_HALF = ("HFMA2", "HADD2.F32", "F2F.F32.F16", "HADD2.F16_V2", "HADD2.BF16_V2")
_PRODUCT = re.compile(
    r"gemm|matmul|mat_?mul|mm_|product|conv|attention|linear|dense", re.IGNORECASE
)


def _hit(case: Case) -> Hit | None:
    whole, products = case.instructions, case.count_opcodes("HFMA2", "FFMA")
    loads = case.count_opcodes("LDG", "LDS")
    if not whole or case.count_opcodes(*_TENSOR) or 100 * products < SHARE_PCT * whole:
        return None
    if products > MOST_PRODUCTS * loads or 2 * case.count_opcodes(*_HALF) < products:
        return None
    if not _PRODUCT.search(case.facts.row["name"] or ""):
        return None
    return relieve(
        case,
        {SM: 100 * (1 - 1 / FASTER), L1: 100 * (1 - 1 / REUSE)},
        f"{format_pct(100 * products / whole)} of the instructions multiply and add numbers of 16 "
        "bits outside the tensor cores",
    )


check = judge_kernels(
    RULE,
    _hit,
    metrics=(TIME,),
    record="--section InstructionStats",
    fix="use cuBLAS, cuBLASLt, cuDNN or CUTLASS, or nvcuda::wmma and mma.sync",
    verify="sightline stats tensor_use AFTER: a busy tensor pipe",
    is_callers=True,
)
