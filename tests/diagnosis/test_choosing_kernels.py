"""What makes Nsight Compute profile a kernel: its own name, or what a frame around it runs."""

from __future__ import annotations

import pytest

from sightline.diagnosis.algorithms import choose_in_ncu

FUNCTOR = "at::native::AddFunctor<float>"
CUTLASS = "cutlass_80_tensorop_s1688gemm_64x256_16x4_tn_align4"
LAMBDA = "Kokkos::Impl::ParallelFor<exchange(int)::{lambda(int)#1}, Kokkos::RangePolicy<>>"
DEMANGLED = " --kernel-name-base demangled -k "


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Fan2(float*, int)", " -k regex:Fan2"),
        ("_Z4Fan2Pfi", " -k regex:Fan2"),
        ("void gemm<float>(int)", " -k regex:gemm"),
        (
            "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_stage3",
            " -k regex:sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_stage3",
        ),
        (f"void cutlass::Kernel2<{CUTLASS}>(T1::Params)", f'{DEMANGLED}"regex:Kernel2.*{CUTLASS}"'),
        (
            "void cutlass::Kernel<cutlass::gemm::kernel::Gemm<MmaPipelined<RowMajor>>>(T1::Params)",
            f'{DEMANGLED}"regex:Kernel.*Gemm"',
        ),
        (
            f"void at::native::vectorized_elementwise_kernel<4, {FUNCTOR}>(int, {FUNCTOR})",
            f'{DEMANGLED}"regex:vectorized_elementwise_kernel.*AddFunctor"',
        ),
        (
            f"void Kokkos::Impl::cuda_parallel_launch_constant_memory<{LAMBDA}>()",
            f'{DEMANGLED}"regex:cuda_parallel_launch_constant_memory.*exchange"',
        ),
        ("", ""),
    ],
)
def test_a_kernel_is_chosen_by(name: str, words: str) -> None:
    assert choose_in_ncu(name) == words
