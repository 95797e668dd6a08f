"""What takes work off a pipe of the SM, in the words of an advice.

Which operations a pipe runs: Nsight Compute, Kernel Profiling Guide, "Pipelines".
"""

from __future__ import annotations

from sightline.diagnosis.kernel_bounds import ISSUE

_FIX = {
    "fp64": "use float or mixed precision where the accuracy allows it",
    "lsu": "fewer and wider memory instructions (float4), data in registers",
    "xu": "fewer special functions, conversions, divisions and modulos, and bit scans (__ffs, "
    "__clz, __popc): cheaper ones (__expf, __sinf), 2D indices instead of / and %, a table",
    "tensor": "nothing to fix: the tensor cores are busy; only lower precision gives more",
    "fma": "use tensor cores where these are matrix products, or less arithmetic",
    "alu": "move integer and address arithmetic out of the inner loop",
    ISSUE: "fewer instructions for the same result: wider loads, fast math, less address "
    "arithmetic, tensor cores for products",
}
_OTHERS = "move work to another pipeline, or reduce it"


def relieve_pipe(pipe: str) -> str:
    """The advice for a pipe, or for the slots in which instructions are issued."""
    return _FIX.get(pipe.removesuffix("heavy").removesuffix("lite"), _OTHERS)
