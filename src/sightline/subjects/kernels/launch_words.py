"""Who writes a kernel's launch, by the kernel's name, and what is changed there."""

from __future__ import annotations

import re
from typing import NamedTuple


class Launcher(NamedTuple):
    """Names of kernels that a compiler or library makes; how to give more blocks, more threads."""

    pattern: str
    more_blocks: str
    block_size: str
    source: str


# The first that matches; each names kernels as its tool is seen to do in recordings.
_LAUNCHERS = (
    Launcher(
        r"^nvkernel_|^__omp_offloading_",
        "spread the loop over teams: target teams distribute parallel for, with collapse(n) for "
        "nested loops, no num_teams(1) and no OMP_NUM_TEAMS",
        "thread_limit(128), and parallel for on the inner loop (collapse(n) where it is short)",
        "OpenMP 5.2, teams and distribute constructs; NVHPC and LLVM name the kernels so",
    ),
    Launcher(
        r"_\d+_gpu(?:__red)?$|^__pgi_|_pgi_uacc_",
        "make the loop parallel: parallel loop gang vector, collapse(n) for nested loops, no "
        "num_gangs(1); -Minfo=accel says what the compiler left sequential",
        "vector_length(128), or vector on the innermost loop",
        "OpenACC 3.3, gang, worker and vector clauses; NVHPC names the kernels so",
    ),
    Launcher(
        r"Kokkos::Impl|RAJA::",
        "give the policy more work items (RangePolicy, MDRangePolicy over all loops), or the "
        "TeamPolicy a larger league",
        "a larger team or tile size: TeamPolicy(league, Kokkos::AUTO)",
        "Kokkos Programming Guide, execution policies",
    ),
    Launcher(
        r"^(?:julia_|gpu_|_Z\d+(?:julia|gpu)_)",
        "launch more blocks: @cuda threads=256 blocks=cld(n, 256), one index for each element",
        "threads=256; launch_configuration(kernel.fun) suggests a size",
        "CUDA.jl, Kernel programming; KernelAbstractions.jl names kernels gpu_",
    ),
    Launcher(
        r"^cudapy|_ZN\d+__main__|^__main__",
        "launch more blocks: kernel[(n + 255) // 256, 256], one index for each element",
        "kernel[blocks, 256]: a multiple of 32 threads",
        "Numba for CUDA GPUs, Kernel invocation",
    ),
)
_ANY = Launcher(
    "",
    "divide the work into more blocks than the GPU has multiprocessors (kernel<<<(n + 255) / 256, "
    "256>>>; a scan or a reduction in two levels: cub::DeviceScan, cub::DeviceReduce)",
    "128 to 256 threads a block, a multiple of the warp",
    "CUDA C++ Best Practices Guide: Thread and Block Heuristics",
)


def find_launcher(kernel: str) -> Launcher:
    """Who launches kernels of such a name; a program in CUDA or HIP where nobody else is known."""
    return next((of for of in _LAUNCHERS if re.search(of.pattern, kernel)), _ANY)
